"""Hosts' power, on the real driver over HTTP to its far end."""

import pytest

from testbed.bench.power import Power
from testbed.bench.sites import PowerSite
from testbed.clock import Deadline
from testbed.errors import BusyError, InstrumentError, UnsafeError, UsageError
from testbed.record.journal import Journal, open_entries
from testbed.schema import Outlet
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.dialects.options import HttpOptions
from testbed_drivers.power.redfish import Redfish
from testbed_drivers.power.redfish_far_end import RedfishFarEnd

OUTLETS = {"h0": Outlet("pdu", "1"), "h1": Outlet("pdu", "2"), "h2": Outlet("pdu", "3"), "h9": None}


class Rig:
    """A power unit that feeds three hosts, and the code that switches it."""

    def __init__(self, directory):
        self.scheduler = WallScheduler()
        self._path = directory / "journal.jsonl"
        self.journal = Journal(self._path)
        self.asked = []
        """Every question whether an outlet may be turned, and what had power then."""
        self.refusal = None
        self.journalled = []
        """What the journal held each time that power went."""
        self.powered = {"1": True, "2": True, "3": True}
        self.far_end = RedfishFarEnd(
            PowerSite(dict(self.powered), "P1", self.scheduler, self._turn)
        )
        self.wire = serve_tcp(self.far_end)
        url = f"http://127.0.0.1:{self.wire.port}"
        self.unit = Redfish("pdu", url, None, HttpOptions(), lambda way, data: None)
        self.unit.open(soon())
        self.power = Power({"pdu": self.unit}, OUTLETS, self.journal, self)

    def outlet(self, host, why=""):
        """Say whether an outlet may be turned, as the lab's lease and its file do."""
        self.asked.append((host, why, dict(self.powered)))
        if self.refusal:
            raise self.refusal

    def _turn(self, outlet, on):
        self.powered[outlet] = on
        self.journalled.append(self.undone())

    def undone(self):
        return [(entry["unit"], entry["outlet"], entry["on"]) for entry in open_entries(self._path)]

    def close(self):
        self.unit.close()
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


def test_the_undo_of_a_power_cut_is_journalled_before_the_cut(rig):
    rig.power.cut("h1", soon())
    assert rig.powered == {"1": True, "2": False, "3": True}
    assert rig.journalled == [[("pdu", "2", True)]]
    assert rig.power.dark_hosts == ("h1",)


def test_restoring_power_closes_the_undo_in_the_journal(rig):
    rig.power.cut("h1", soon())
    rig.power.restore("h1", soon())
    assert rig.powered["2"]
    assert rig.undone() == []
    assert rig.power.dark_hosts == ()


def test_cutting_twice_writes_one_undo_and_restoring_twice_is_harmless(rig):
    rig.power.cut("h1", soon())
    rig.power.cut("h1", soon())
    assert rig.undone() == [("pdu", "2", True)]
    rig.power.restore("h1", soon())
    rig.power.restore("h1", soon())
    assert rig.undone() == []


def test_an_outlet_that_was_off_before_is_not_switched_on(rig):
    rig.unit.turn("3", False, soon())
    rig.journalled.clear()
    rig.power.restore("h2", soon())
    rig.power.restore_all(soon())
    assert rig.journalled == []
    assert not rig.powered["3"]


def test_a_host_without_a_power_unit_is_named_with_what_to_do(rig):
    assert not rig.power.feeds("h9")
    assert rig.power.feeds("h0")
    with pytest.raises(UsageError, match="h9 has no power unit; add `power:`"):
        rig.power.cut("h9", soon())


def test_the_undo_of_a_refused_power_cut_stays_in_the_journal(rig):
    rig.far_end.fault("error", port="2")
    with pytest.raises(InstrumentError):
        rig.power.cut("h1", soon())
    assert rig.undone() == [("pdu", "2", True)]
    rig.far_end.clear()
    rig.power.restore_all(soon())
    assert rig.undone() == []


def test_an_outlet_that_stays_off_raises_unsafe_and_its_undo_stays_open(rig):
    rig.power.cut("h1", soon())
    rig.far_end.fault("stuck", port="2")
    with pytest.raises(UnsafeError, match=r"outlet pdu\.2 of h1"):
        rig.power.restore("h1", soon(0.3))
    assert rig.undone() == [("pdu", "2", True)]
    rig.far_end.clear()
    rig.power.restore("h1", soon())
    assert rig.powered["2"]


def test_an_outlet_that_stays_off_does_not_stop_the_restoring_of_others(rig):
    for host in ("h0", "h1", "h2"):
        rig.power.cut(host, soon())
    rig.far_end.fault("error", port="1")
    rig.far_end.fault("stuck", port="2")
    with pytest.raises(UnsafeError) as problem:
        rig.power.restore_all(soon(0.6))
    assert "pdu.1" in str(problem.value)
    assert "pdu.2" in str(problem.value)
    assert "pdu.3" not in str(problem.value)
    assert rig.powered == {"1": False, "2": False, "3": True}
    assert rig.power.dark_hosts == ("h0", "h1")


def test_a_full_disk_leaves_no_host_without_power(rig, full_disk):
    for host in ("h0", "h1"):
        rig.power.cut(host, soon())
    with full_disk(), pytest.raises(UnsafeError, match="not marked as undone"):
        rig.power.restore_all(soon())
    assert rig.powered == {"1": True, "2": True, "3": True}


def test_an_unreachable_power_unit_raises_unsafe_when_restored(rig):
    rig.power.cut("h1", soon())
    rig.wire.close()
    with pytest.raises(UnsafeError, match="may still be off"):
        rig.power.restore_all(soon(0.5))


def test_power_is_not_cut_when_its_undo_cannot_be_journalled(rig):
    rig.journal.close()
    with pytest.raises(ValueError, match="closed file"):
        rig.power.cut("h1", soon())
    assert rig.powered["2"]


ALL_ON = {"1": True, "2": True, "3": True}


def test_the_permission_is_checked_for_the_reason_of_a_power_cut(rig):
    rig.power.cut("h1", soon())
    rig.power.cut("h2", soon(), "fence")
    assert rig.asked[0] == ("h1", "power-cut", ALL_ON)
    assert rig.asked[1][:2] == ("h2", "fence")


@pytest.mark.parametrize("refusal", [UsageError("not here"), BusyError("the lease is lost")])
def test_a_forbidden_power_cut_is_neither_made_nor_journalled(rig, refusal):
    rig.refusal = refusal
    with pytest.raises(type(refusal)):
        rig.power.cut("h1", soon())
    assert (rig.powered, rig.undone(), rig.power.dark_hosts) == (ALL_ON, [], ())


def test_after_a_lost_lease_no_outlet_is_switched_and_those_left_off_are_reported(rig):
    rig.power.cut("h1", soon())
    rig.refusal = BusyError("the lease of this run is lost")
    with pytest.raises(UnsafeError, match=r"pdu\.2 of h1 may still be off: the lease .* lost"):
        rig.power.restore_all(soon())
    assert not rig.powered["2"]
    assert rig.undone() == [("pdu", "2", True)]
    rig.refusal = None
    rig.power.restore_all(soon())
    assert (rig.powered, rig.undone()) == (ALL_ON, [])
    assert [why for _, why, _ in rig.asked] == ["power-cut", "", ""]
