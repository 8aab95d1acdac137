"""The contract of a power meter, kept by every driver on every wire that it claims."""

import contextlib

import pytest

from testbed.clock import now
from testbed.errors import InstrumentError, NoReply, UsageError
from testbed.fabric.reading import DARK
from tests.contract.light_rig import Rig, claims, soon


@pytest.fixture(params=claims("meter"), ids="-".join)
def rig(request):
    rig = Rig(*request.param)
    yield rig
    rig.close()


@pytest.fixture
def meter(rig):
    return rig.opened()


def send_as_another_client(rig, line):
    rig.far_end.session(lambda said: None).receive(line.encode() + b"\n")


def test_opening_a_power_meter_reads_its_identity(meter):
    assert meter.identify(soon()).serial == "L1"


def test_each_reading_of_a_power_meter_is_the_present_power(rig, meter):
    for level in (-3.25, 4.0, -41.0):
        rig.light[1] = level
        assert meter.power(1, soon()).dbm == pytest.approx(level, abs=0.1)


@pytest.mark.parametrize("level", [None, -60.0, -95.0])
def test_no_light_reads_as_dark_instead_of_a_number(rig, meter, level):
    rig.light[1] = level
    assert meter.power(1, soon()) == DARK


def test_a_noise_floor_given_in_the_lab_file_is_used(rig):
    rig.light[1] = -45.0
    assert rig.opened(floor=-40.0).power(1, soon()) == DARK


@pytest.mark.parametrize("unit", ["W", "DBM"])
def test_readings_do_not_depend_on_the_unit_chosen_at_the_front_panel(rig, meter, unit):
    rig.light[1] = -10.0
    send_as_another_client(rig, f"SENS:POW:UNIT {unit}")
    assert meter.power(1, soon()).dbm == pytest.approx(-10.0, abs=0.1)
    rig.light[1] = None
    assert meter.power(1, soon()) == DARK


def test_the_calibration_wavelength_is_read(rig, meter):
    assert meter.wavelength(1, soon()) == pytest.approx(1310.0)
    for header in ("SENS:POW:WAV", "SENS:CORR:WAV"):
        send_as_another_client(rig, f"{header} 1550NM")
    assert meter.wavelength(1, soon()) == pytest.approx(1550.0)


def test_a_failed_detector_reads_no_light(rig, meter):
    rig.light[1] = 0.0
    rig.far_end.fault("blind", port=1)
    assert meter.power(1, soon()) == DARK
    rig.far_end.clear()
    assert meter.power(1, soon()).dbm == pytest.approx(0.0, abs=0.1)


def test_a_channel_outside_the_lab_file_is_not_queried(rig, meter):
    with pytest.raises(UsageError, match="channel 2 is not among its channels"):
        meter.power(2, soon())
    assert "2" not in rig.sent


def test_no_setting_of_the_meter_is_ever_changed(rig, meter):
    meter.power(1, soon())
    meter.wavelength(1, soon())
    lines = [line for line in rig.sent.splitlines() if line]
    assert all(part.endswith("?") for line in lines for part in line.split(";")), lines


@pytest.mark.parametrize(
    "fault",
    ["silent", "garbled", "truncated", "wrong-end", "banner", "doubled", "cut", "reset", "merged"],
)
def test_power_read_over_a_faulty_wire_is_right_or_an_error(rig, meter, fault):
    rig.light[1] = -6.0
    rig.far_end.fault(fault, count=1, command="POW?", delay=0.02)
    with contextlib.suppress(InstrumentError, ConnectionError):
        assert meter.power(1, soon(0.15)).dbm == pytest.approx(-6.0, abs=0.1)
    rig.far_end.clear()
    assert meter.wavelength(1, soon()) == pytest.approx(1310.0)
    assert meter.power(1, soon()).dbm == pytest.approx(-6.0, abs=0.1)


def test_waiting_for_a_missing_reply_of_a_power_meter_ends_at_the_deadline(rig, meter):
    rig.far_end.fault("silent", command="POW?")
    deadline = soon(0.1)
    with pytest.raises(NoReply):
        meter.power(1, deadline)
    assert now() < deadline.at + 10, "it hung"


def test_another_device_at_the_same_address_is_refused(rig):
    with pytest.raises(InstrumentError, match="L1 instead of L2"):
        rig.opened(identity="L2")


def test_closing_a_power_meter_twice_is_harmless(rig, meter):
    meter.close()
    meter.close()
    rig.light[1] = -1.0
    assert meter.power(1, soon()).dbm == pytest.approx(-1.0, abs=0.1)
