"""A change whose outcome is in doubt: its undo is sent, and looked at for as long as it takes."""

import pytest

from testbed.bench.multi_switch_change import ForeignCircuitsLost, PlannedChange, change_all
from testbed.bench.orphaned_circuits import OrphanedCircuits
from testbed.bench.read_back_lag import LONGEST_LAG
from testbed.bench.verification import WallTime
from testbed.errors import InstrumentError, UnsafeError
from tests.contract.virtual_time import VirtualDeadline, VirtualTime
from tests.unit.bench.switches_in_memory import Box

PORTS = {1, 2, 7, 8}
EVERY_PORT = set(range(1, 13))


@pytest.fixture
def box():
    box = Box("ocs", VirtualTime(), PORTS, EVERY_PORT)
    box.crossbar.adopt({}, box.soon())
    return box


def change(box, wanted):
    move = PlannedChange(box.crossbar, *box.crossbar.plan(wanted, box.soon()))
    change_all([move], box.soon())
    return move


def truth(box):
    """Return what the box has, which no client is told while it is late."""
    return dict(box.far_end._switch.commanded)


@pytest.mark.parametrize("lag", [0.5, 3.0, 10.0])
def test_a_circuit_shown_late_is_removed_before_the_change_is_called_rolled_back(box, lag):
    box.far_end.fault("lag", delay=lag)
    with pytest.raises(InstrumentError, match=r"shows no 1→7; .* rolled back"):
        change(box, {1: 7})
    assert truth(box) == {}
    assert ("SUB", {1: 7}) in box.mutations, "nothing of it was shown, and all the same it must go"
    assert box.time.now() > LONGEST_LAG


@pytest.mark.parametrize("lag", [0.5, 3.0, 10.0])
def test_a_removal_shown_late_is_reverted_before_the_change_is_called_rolled_back(box, lag):
    change(box, {1: 7})
    box.crossbar.forget_lag()  # as at the start: nothing of how it follows is known
    box.far_end.fault("lag", delay=lag)
    box.time.advance(lag)
    with pytest.raises(InstrumentError, match="rolled back"):
        change(box, {})
    assert truth(box) == {1: 7}


def test_a_move_shown_late_is_reverted_as_a_whole(box):
    change(box, {1: 7})
    box.far_end.fault("lag", delay=2.0)
    box.time.advance(2.0)
    with pytest.raises(InstrumentError, match="rolled back"):
        change(box, {1: 8})
    assert truth(box) == {1: 7}


def test_a_rollback_does_not_wait_for_a_switch_with_prompt_read_back(box):
    change(box, {1: 7})
    began = box.time.now()
    box.far_end.fault("stuck", port=2, count=1)
    with pytest.raises(InstrumentError, match="rolled back"):
        change(box, {1: 7, 2: 8})
    assert box.time.now() - began < 0.1
    assert truth(box) == {1: 7}


class BusyTime(VirtualTime):
    """The clock of a machine so busy that each look at it takes a while."""

    def now(self):
        """Return seconds on this clock."""
        self.advance(0.006)
        return self.time


def test_a_rollback_on_a_busy_machine_has_enough_time_to_be_verified():
    box = Box("ocs", BusyTime(), PORTS, EVERY_PORT)
    box.crossbar.adopt({}, box.soon())
    change(box, {1: 7})
    box.far_end.fault("stuck", port=2, count=1)
    with pytest.raises(InstrumentError, match="rolled back"):
        change(box, {1: 7, 2: 8})
    assert truth(box) == {1: 7}


def test_a_rollback_does_not_wait_after_a_change_refused_as_a_whole(box):
    box.far_end.fault("error", command="ADD", count=1)
    with pytest.raises(InstrumentError, match="Execution error; the change was rolled back"):
        change(box, {1: 7})
    assert box.time.now() < 0.1


@pytest.mark.parametrize("lag", [0.5, 3.0, 10.0])
def test_recover_removes_circuits_of_a_killed_run_that_the_read_back_shows_late(box, lag):
    box.say("ADD (@1),(@7)")
    box.far_end.fault("lag", delay=lag)
    clock = WallTime(box.time.now, box.time.advance)
    left = OrphanedCircuits("ocs", box.driver, frozenset(PORTS), {}, clock=clock)
    left.adopt_undo({}, [(1, 7)], alone=False)
    assert left.bring_back(VirtualDeadline(box.time.now() + 45.0, box.time)) == []
    assert truth(box) == {}


def test_a_switch_whose_read_back_never_settles_is_not_reported_as_rolled_back(box):
    change(box, {1: 7})
    move = PlannedChange(box.crossbar, *box.crossbar.plan({2: 8}, box.soon()))
    box.far_end.fault("flap", delay=1000.0)
    with pytest.raises(UnsafeError, match="changes again and again, so its state is unknown"):
        change_all([move], box.soon())
    assert truth(box) == {1: 7}


def test_circuits_of_others_lost_during_a_change_are_reported(box):
    box.say("ADD (@5,6),(@11,12)")
    box.far_end.fault("swept", count=1)
    move = change(box, {1: 7})
    assert move.crossbar.others_gone() == (
        "6→12 (unwired to unwired), made by another client, was removed"
    )
    assert change(box, {}).crossbar.others_gone() == ""


def test_circuits_of_others_lost_during_a_failed_change_are_reported(box):
    box.say("ADD (@5,6),(@11,12)")
    box.far_end.fault("swept", count=1)
    box.far_end.fault("misrouted", port=1, count=1)
    with pytest.raises(
        ForeignCircuitsLost, match=r"1→8 instead; .* rolled back, but 6→12 .* was removed"
    ):
        change(box, {1: 7})
    assert truth(box) == {5: 11}


def test_changed_circuits_on_ports_leased_by_others_are_not_reported(box):
    box.say("ADD (@5,6),(@11,12)")
    box.crossbar.callbacks.leased_elsewhere = lambda ports: ports & {12}
    box.far_end.fault("swept", count=1)
    assert change(box, {1: 7}).crossbar.others_gone() == ""
