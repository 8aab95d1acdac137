"""The one door to hosts' power, on the real driver over HTTP to its far end."""

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


class Room:
    """A power unit that feeds three hosts, and the door to it."""

    def __init__(self, directory):
        self.scheduler = WallScheduler()
        self._path = directory / "journal.jsonl"
        self.journal = Journal(self._path)
        self.asked = []
        """Every question whether an outlet may be turned, and what had power then."""
        self.refusal = None
        self.promised = []
        """What the journal held each time that power went."""
        self.powered = {"1": True, "2": True, "3": True}
        self.far_end = RedfishFarEnd(
            PowerSite(dict(self.powered), "P1", self.scheduler, self._turn)
        )
        self.wire = serve_tcp(self.far_end)
        url = f"http://127.0.0.1:{self.wire.port}"
        self.unit = Redfish("pdu", url, None, HttpOptions(), lambda way, data: None)
        self.unit.open(soon())
        self.door = Power({"pdu": self.unit}, OUTLETS, self.journal, self)

    def outlet(self, host, why=""):
        """Say whether an outlet may be turned, as the lab's lease and its file do."""
        self.asked.append((host, why, dict(self.powered)))
        if self.refusal:
            raise self.refusal

    def _turn(self, outlet, on):
        self.powered[outlet] = on
        self.promised.append(self.undone())

    def undone(self):
        return [(entry["unit"], entry["outlet"], entry["on"]) for entry in open_entries(self._path)]

    def close(self):
        self.unit.close()
        self.wire.close()
        self.scheduler.close()
        self.journal.close()


@pytest.fixture
def room(tmp_path):
    room = Room(tmp_path)
    yield room
    room.close()


def soon(limit=5):
    return Deadline.after(limit)


def test_the_undo_of_a_power_cut_is_journalled_before_the_cut(room):
    room.door.cut("h1", soon())
    assert room.powered == {"1": True, "2": False, "3": True}
    assert room.promised == [[("pdu", "2", True)]]
    assert room.door.dark_hosts == ("h1",)


def test_restored_power_is_settled_in_the_journal(room):
    room.door.cut("h1", soon())
    room.door.restore("h1", soon())
    assert room.powered["2"]
    assert room.undone() == []
    assert room.door.dark_hosts == ()


def test_cutting_twice_writes_one_undo_and_restoring_twice_is_harmless(room):
    room.door.cut("h1", soon())
    room.door.cut("h1", soon())
    assert room.undone() == [("pdu", "2", True)]
    room.door.restore("h1", soon())
    room.door.restore("h1", soon())
    assert room.undone() == []


def test_an_outlet_that_was_off_before_is_not_switched_on(room):
    room.unit.turn("3", False, soon())
    room.promised.clear()
    room.door.restore("h2", soon())
    room.door.restore_all(soon())
    assert room.promised == []
    assert not room.powered["3"]


def test_a_host_without_a_power_unit_is_named_with_what_to_do(room):
    assert not room.door.feeds("h9")
    assert room.door.feeds("h0")
    with pytest.raises(UsageError, match="h9 has no power unit; add `power:`"):
        room.door.cut("h9", soon())


def test_a_refused_power_cut_stays_in_the_journal(room):
    room.far_end.fault("error", port="2")
    with pytest.raises(InstrumentError):
        room.door.cut("h1", soon())
    assert room.undone() == [("pdu", "2", True)]
    room.far_end.clear()
    room.door.restore_all(soon())
    assert room.undone() == []


def test_an_outlet_that_stays_off_is_unsafe_and_stays_in_the_journal(room):
    room.door.cut("h1", soon())
    room.far_end.fault("stuck", port="2")
    with pytest.raises(UnsafeError, match=r"outlet pdu\.2 of h1"):
        room.door.restore("h1", soon(0.3))
    assert room.undone() == [("pdu", "2", True)]
    room.far_end.clear()
    room.door.restore("h1", soon())
    assert room.powered["2"]


def test_an_outlet_that_stays_off_does_not_stop_the_restoring_of_others(room):
    for host in ("h0", "h1", "h2"):
        room.door.cut(host, soon())
    room.far_end.fault("error", port="1")
    room.far_end.fault("stuck", port="2")
    with pytest.raises(UnsafeError) as problem:
        room.door.restore_all(soon(0.6))
    assert "pdu.1" in str(problem.value)
    assert "pdu.2" in str(problem.value)
    assert "pdu.3" not in str(problem.value)
    assert room.powered == {"1": False, "2": False, "3": True}
    assert room.door.dark_hosts == ("h0", "h1")


def test_a_full_disk_leaves_no_host_without_power(room, full_disk):
    for host in ("h0", "h1"):
        room.door.cut(host, soon())
    with full_disk(), pytest.raises(UnsafeError, match="not marked as undone"):
        room.door.restore_all(soon())
    assert room.powered == {"1": True, "2": True, "3": True}


def test_an_unreachable_power_unit_is_unsafe(room):
    room.door.cut("h1", soon())
    room.wire.close()
    with pytest.raises(UnsafeError, match="is still off"):
        room.door.restore_all(soon(0.5))


def test_power_is_not_cut_when_its_undo_cannot_be_journalled(room):
    room.journal.close()
    with pytest.raises(ValueError, match="closed file"):
        room.door.cut("h1", soon())
    assert room.powered["2"]


ALL_ON = {"1": True, "2": True, "3": True}


def test_the_permission_is_checked_for_the_reason_of_a_power_cut(room):
    room.door.cut("h1", soon())
    room.door.cut("h2", soon(), "fence")
    assert room.asked[0] == ("h1", "power-cut", ALL_ON)
    assert room.asked[1][:2] == ("h2", "fence")


@pytest.mark.parametrize("refusal", [UsageError("not here"), BusyError("the lease is lost")])
def test_a_forbidden_power_cut_is_neither_made_nor_journalled(room, refusal):
    room.refusal = refusal
    with pytest.raises(type(refusal)):
        room.door.cut("h1", soon())
    assert (room.powered, room.undone(), room.door.dark_hosts) == (ALL_ON, [], ())


def test_after_a_lost_lease_no_outlet_is_switched_and_those_left_off_are_reported(room):
    room.door.cut("h1", soon())
    room.refusal = BusyError("the lease of this run is lost")
    with pytest.raises(UnsafeError, match=r"pdu\.2 of h1 is still off: the lease .* is lost"):
        room.door.restore_all(soon())
    assert not room.powered["2"]
    assert room.undone() == [("pdu", "2", True)]
    room.refusal = None
    room.door.restore_all(soon())
    assert (room.powered, room.undone()) == (ALL_ON, [])
    assert [why for _, why, _ in room.asked] == ["power-cut", "", ""]
