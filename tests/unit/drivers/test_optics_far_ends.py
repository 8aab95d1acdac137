"""Attenuator and power meter far ends as state machines, on a clock that only moves when told."""

import pytest

from testbed.bench.sites import AttenuatorSite, MeterSite
from testbed_drivers.light.keysight_voa_far_end import BLOCKED, KeysightVoaFarEnd
from testbed_drivers.light.power_meters_far_end import KeysightMeterFarEnd, ThorlabsMeterFarEnd
from tests.contract.virtual_time import VirtualTime


class Voa:
    """A two-channel attenuator, its time, and what it took from the light when."""

    def __init__(self):
        self.time = VirtualTime()
        self.taken = []
        site = AttenuatorSite(frozenset({1, 2}), "S1", 1, self.time, self._take, speed=100.0)
        self.far_end = KeysightVoaFarEnd(site)
        self._said = []
        self._line = self.far_end.session(self._said.append)

    def _take(self, channel, loss):
        self.taken.append((round(self.time.now(), 6), channel, loss))

    def say(self, line):
        self._said.clear()
        self._line.receive(line.encode() + b"\n")
        return self._said[0].decode().rstrip("\n") if self._said else None


@pytest.fixture
def voa():
    return Voa()


def test_an_attenuator_moves_at_its_speed_and_reads_back_its_present_loss(voa):
    voa.say(":INP2:ATT 2.5 dB")
    assert float(voa.say(":inp2:att?")) == 0.0
    voa.time.advance(0.02)
    assert float(voa.say(":inp2:att?")) == 2.0
    voa.time.advance(1.0)
    assert float(voa.say(":inp2:att?")) == 2.5
    assert voa.taken == [(0.01, 2, 1.0), (0.02, 2, 2.0), (0.025, 2, 2.5)]


def test_an_attenuator_commanded_while_moving_changes_direction(voa):
    voa.say(":INP1:ATT 40")
    voa.time.advance(0.03)
    voa.say(":INP1:ATT 0")
    voa.time.advance(1.0)
    assert [loss for _, _, loss in voa.taken] == [1.0, 2.0, 3.0, 2.0, 1.0, 0.0]


def test_a_channel_with_a_false_read_back_shows_the_commanded_loss(voa):
    voa.far_end.fault("lie", port=1)
    voa.say(":INP1:ATT 7")
    voa.time.advance(1.0)
    assert (float(voa.say(":INP1:ATT?")), voa.taken) == (7.0, [])
    voa.far_end.clear()
    voa.say(":INP1:ATT 1")
    voa.time.advance(1.0)
    assert (float(voa.say(":INP1:ATT?")), voa.taken) == (1.0, [(1.01, 1, 1.0)])


def test_a_shutter_does_not_change_the_attenuation(voa):
    voa.say(":OUTP1 OFF")
    assert voa.taken == [(0.0, 1, BLOCKED)]
    assert voa.say(":OUTPut1:STATe?") == "0"
    voa.say(":OUTP1:STAT ON")
    assert voa.taken[-1] == (0.0, 1, 0.0)


def test_keywords_stand_for_numbers_and_a_missing_channel_for_the_first(voa):
    assert float(voa.say(":INP2:ATT? MAX")) == 45.0
    voa.say(":INPUT:ATTENUATION MAXIMUM")
    voa.time.advance(1.0)
    assert [float(voa.say(f":INP{n}:ATT?")) for n in (1, 2)] == [45.0, 0.0]
    voa.say(":INP1:ATT DEF")
    voa.time.advance(1.0)
    assert float(voa.say(":INP1:ATT?")) == 0.0


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (":INP1:ATT 45.1", -222),
        (":INP1:ATT -1", -222),
        (":INP1:ATT lots", -104),
        (":INP3:ATT 1", -113),
        (":INP1:ATT? 3", -224),
        (":OUTP1 AJAR", -224),
    ],
)
def test_a_bad_command_changes_nothing_and_queues_one_error(voa, line, number):
    voa.say(line)
    voa.time.advance(1.0)
    assert voa.say(":SYST:ERR?").startswith(f"{number}, ")
    assert voa.say(":SYST:ERR?") == '0, "No error"'
    assert voa.taken == []


@pytest.mark.parametrize("make", [KeysightMeterFarEnd, ThorlabsMeterFarEnd])
def test_the_noise_of_a_meter_is_reproducible_by_its_seed(make):
    def readings():
        far_end = make(MeterSite(frozenset({1}), "S1", 7, VirtualTime(), lambda channel: -3.0))
        header = ":READ1:POW?" if make is KeysightMeterFarEnd else "MEAS:POW?"
        return [far_end.execute(header) for _ in range(3)]

    assert readings() == readings()
    assert len(set(readings())) == 3


def test_each_channel_has_its_own_unit_and_wavelength():
    site = MeterSite(frozenset({1, 2}), "S1", 7, VirtualTime(), lambda channel: 0.0)
    meter = KeysightMeterFarEnd(site)
    meter.execute(":SENS2:POW:UNIT W;:SENS2:POW:WAV 1550NM")
    assert meter.execute(":SENS1:POW:UNIT?;:SENS2:POW:UNIT?") == "+0;+1"
    assert float(meter.execute(":FETC2:POW?")) == pytest.approx(1e-3, rel=0.02)
    assert float(meter.execute(":SENS1:POW:WAV?")) == pytest.approx(1310e-9)
    assert float(meter.execute(":SENS2:POW:WAV?")) == pytest.approx(1550e-9)


def test_a_thorlabs_meter_has_one_channel():
    with pytest.raises(ValueError, match="only channel 1"):
        ThorlabsMeterFarEnd(MeterSite(frozenset({2}), "S1", 7, VirtualTime(), {}.get))
