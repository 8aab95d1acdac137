"""Attenuation of fibres, on the real driver over TCP to its far end."""

import pytest

from testbed.bench.attenuation import Attenuation
from testbed.bench.sites import AttenuatorSite, MeterSite
from testbed.clock import Deadline
from testbed.errors import BusyError, InstrumentError, UnsafeError, UsageError
from testbed.fabric.circuits import Fibres, HostPort, SwitchPort
from testbed.record.journal import Journal, open_entries
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.light.descriptors import AttenuatorOptions, MeterOptions
from testbed_drivers.light.keysight_voa import KeysightVoa
from testbed_drivers.light.keysight_voa_far_end import KeysightVoaFarEnd
from testbed_drivers.light.power_meters import KeysightMeter
from testbed_drivers.light.power_meters_far_end import KeysightMeterFarEnd

WIRING = {
    HostPort(f"h{n}", "p0"): Fibres(SwitchPort("ocs", n + 1), SwitchPort("ocs", n + 5))
    for n in range(3)
}
THROUGH = {
    SwitchPort("ocs", 1): ("voa", 1),
    SwitchPort("ocs", 5): ("voa", 2),
    SwitchPort("ocs", 6): ("voa", 3),
}
H0, H1, H2 = WIRING


class Rig:
    """An attenuator with three fibres: both of h0's port, and the one towards h1's."""

    def __init__(self, directory):
        self.scheduler = WallScheduler()
        self._path = directory / "journal.jsonl"
        self.journal = Journal(self._path)
        site = AttenuatorSite(frozenset({1, 2, 3}), "A1", 1, self.scheduler, lambda c, loss: None)
        self.far_end = KeysightVoaFarEnd(site)
        self.wire = serve_tcp(self.far_end)
        self.asked = []
        """Every question whether the attenuator may be set."""
        self.refusal = None
        self.sent = []
        """Every setting that was sent, and what the journal held then."""
        resource = f"tcp://127.0.0.1:{self.wire.port}"
        channels = frozenset({1, 2, 3})
        options = AttenuatorOptions(settle_max=0.2)
        self.voa = KeysightVoa("voa", resource, channels, None, options, self._hear)
        self.voa.open(soon())
        self.attenuation = Attenuation(
            {"voa": self.voa}, THROUGH, {}, {}, WIRING, self.journal, self
        )

    def attenuator(self, name, host="", why=""):
        """Say whether an attenuator may be set, as the lab's lease and its file do."""
        self.asked.append((name, host, why))
        if self.refusal:
            raise self.refusal

    def _hear(self, way, data):
        if way == "send" and b"ATT " in data:
            self.sent.append(self.undone())

    def undone(self):
        return [(entry["channel"], entry["decibels"]) for entry in open_entries(self._path)]

    def shown(self):
        return [self.voa.attenuation(channel, soon()) for channel in (1, 2, 3)]

    def close(self):
        self.voa.close()
        self.wire.close()
        self.scheduler.close()
        self.journal.close()


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path)
    yield rig
    rig.close()


def soon(limit=5):
    return Deadline.after(limit)


def test_the_present_attenuation_is_journalled_before_any_is_added(rig):
    rig.voa.attenuate(1, 2.5, soon())
    rig.sent.clear()
    done = rig.attenuation.add(H0, 20.0, soon())
    assert (done.before, done.after) == (2.5, 22.5)
    assert str(done.fibre) == "ocs.1"
    assert rig.sent == [[(1, 2.5)]]
    assert rig.shown() == [22.5, 0.0, 0.0]
    rig.attenuation.restore(H0, soon())
    assert rig.shown() == [2.5, 0.0, 0.0]
    assert rig.undone() == []


def test_a_second_addition_starts_from_the_original_attenuation(rig):
    rig.attenuation.add(H0, 20.0, soon())
    rig.attenuation.add(H0, 10.0, soon())
    assert rig.shown()[0] == 10.0
    assert rig.undone() == [(1, 0.0)]
    rig.attenuation.restore(H0, soon())
    rig.attenuation.restore(H0, soon())
    assert rig.shown()[0] == 0.0


def test_the_receive_fibre_is_attenuated_where_the_transmit_fibre_has_no_attenuator(rig):
    assert str(rig.attenuation.add(H1, 3.0, soon()).fibre) == "ocs.6"
    assert rig.shown() == [0.0, 0.0, 3.0]


def test_a_port_without_an_attenuator_is_named_with_what_to_do(rig):
    assert rig.attenuation.fibres(H2) == ()
    with pytest.raises(UsageError, match=r"no fibre of h2\.p0 .* `attenuators:`"):
        rig.attenuation.add(H2, 1.0, soon())
    rig.attenuation.restore(H2, soon())


def test_a_refused_attenuation_stays_in_the_journal_until_restored(rig):
    rig.far_end.fault("error", count=1)
    with pytest.raises(InstrumentError):
        rig.attenuation.add(H0, 20.0, soon())
    assert rig.undone() == [(1, 0.0)]
    rig.attenuation.restore_all(soon())
    assert rig.undone() == []


def test_a_stuck_attenuator_raises_unsafe_and_the_others_are_restored(rig):
    rig.attenuation.add(H0, 20.0, soon())
    rig.attenuation.add(H1, 20.0, soon())
    rig.far_end.fault("stuck", port=1)
    with pytest.raises(UnsafeError, match=r"voa still takes light on channel 1.* of ocs\.1"):
        rig.attenuation.restore_all(soon())
    assert rig.shown() == [20.0, 0.0, 0.0]
    assert rig.undone() == [(1, 0.0)]
    rig.far_end.clear()
    rig.attenuation.restore_all(soon())
    assert rig.undone() == []


def test_an_unreachable_attenuator_raises_unsafe_when_restored(rig):
    rig.attenuation.add(H0, 20.0, soon())
    rig.wire.close()
    with pytest.raises(UnsafeError, match="check the attenuator"):
        rig.attenuation.restore_all(soon(0.5))


def test_no_attenuation_is_added_when_its_undo_cannot_be_journalled(rig):
    rig.journal.close()
    with pytest.raises(ValueError, match="closed file"):
        rig.attenuation.add(H0, 20.0, soon())
    assert rig.shown()[0] == 0.0


def test_the_power_meter_of_a_port_is_that_of_the_attenuated_fibre(rig):
    seen = {4: -3.0, 5: 1.0}
    site = MeterSite(frozenset(seen), "M1", 1, rig.scheduler, seen.get)
    wire = serve_tcp(KeysightMeterFarEnd(site))
    resource, channels = f"tcp://127.0.0.1:{wire.port}", frozenset(seen)
    opm = KeysightMeter("opm", resource, channels, None, MeterOptions(), lambda way, data: None)
    taps = {SwitchPort("ocs", 1): ("opm", 4), SwitchPort("ocs", 5): ("opm", 5)}
    attenuation = Attenuation(
        {"voa": rig.voa}, THROUGH, {"opm": opm}, taps, WIRING, rig.journal, rig
    )
    tap = attenuation.meter(H0)
    assert str(tap) == "opm.4"
    assert tap.level(soon()).dbm == pytest.approx(-3.0, abs=0.1)
    assert attenuation.meter(H1) is None
    assert attenuation.meter(H2) is None
    opm.close()
    wire.close()


@pytest.mark.parametrize("refusal", [UsageError("not here"), BusyError("the lease is lost")])
def test_a_forbidden_attenuation_is_neither_added_nor_journalled(rig, refusal):
    rig.refusal = refusal
    with pytest.raises(type(refusal)):
        rig.attenuation.add(H0, 20.0, soon())
    assert rig.asked == [("voa", "h0", "attenuate")]
    assert (rig.sent, rig.undone()) == ([], [])


def test_after_a_lost_lease_no_attenuator_is_restored_and_each_is_reported(rig):
    rig.attenuation.add(H0, 20.0, soon())
    rig.sent.clear()
    rig.refusal = BusyError("the lease of this run is lost")
    words = r"voa still takes light on channel 1, in the fibre of ocs\.1: the lease .* is lost"
    with pytest.raises(UnsafeError, match=words):
        rig.attenuation.restore_all(soon())
    assert (rig.sent, rig.undone()) == ([], [(1, 0.0)])
    rig.refusal = None
    rig.attenuation.restore_all(soon())
    assert (rig.shown(), rig.undone()) == ([0.0, 0.0, 0.0], [])
