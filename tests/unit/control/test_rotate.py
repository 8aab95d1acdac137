"""The controller `rotate`: its slots by steps and by seconds, and what it does about changes."""

from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.control.controller import (
    ChangeCircuits,
    ChangeFailed,
    CircuitsChanged,
    CommandJob,
    Fail,
    JobObserved,
    MembershipChanged,
    Scope,
    TimerExpired,
    View,
)
from testbed.control.descriptors import RotateOptions, RotateSlot
from testbed.control.protocol import StepDone, Tell
from testbed.control.rotate import ATTEMPTS, MISSED, Rotate, TimeSlot, TopologySlots, rotate
from testbed.fabric.circuits import Circuit, HostPort
from testbed.fabric.fibre_plant import circuits_of_links
from testbed.fabric.topologies import AllToAll
from tests.unit.control.job_model import job_of

JOB = job_of(["h0", "h1", "h2", "h3"])
MATCHINGS = AllToAll().matchings(4, 1)
CIRCUITS = [circuits_of_links(links, JOB.ports) for links in MATCHINGS]
holds = st.lists(st.integers(1, 4), min_size=3, max_size=3)


class Fabric:
    """What a rotation's changes make, each as soon as it is commanded."""

    def __init__(self, holds, unit, now=0.0, job=JOB):
        slots = [TimeSlot(links, hold) for links, hold in zip(MATCHINGS, holds, strict=True)]
        self.rotate = Rotate("main", slots, unit)
        self.state = self.rotate.begin(View(now, {"main": job, "other": JOB}))
        self.lit = frozenset()
        self.changes = 0
        self.failed = ""

    def observe(self, observation, now=0.0, outcome=CircuitsChanged):
        self.state, commands = self.rotate.step(self.state, now, observation)
        for command in commands:
            match command:
                case ChangeCircuits(remove, add):
                    assert remove <= self.lit
                    assert not add & self.lit
                    made = outcome()
                    if made == CircuitsChanged():
                        self.lit = (self.lit - remove) | add
                        self.changes += 1
                    self.observe(made, now, outcome)
                case Fail(reason):
                    self.failed = reason

    def step_done(self, rank, step, job="main"):
        self.observe(JobObserved(job, StepDone(rank, step)))


def slot_after(progress, holds):
    """Return the slot that is due by counting through the table."""
    ends = list(accumulate(holds))
    return next(slot for slot, end in enumerate(ends) if progress % ends[-1] < end)


@given(holds, st.integers(0, 5), st.data())
def test_slots_in_steps_end_when_the_last_rank_has_finished_their_last_step(holds, began, data):
    fabric = Fabric(holds, "steps", job=replace(JOB, step=began))
    assert fabric.rotate.wake_at(fabric.state) == 0.0
    fabric.observe(TimerExpired())
    for step in range(began + 1, began + 15):
        order = data.draw(st.permutations(range(4)))
        for rank in order:
            assert fabric.lit == CIRCUITS[slot_after(step - 1 - began, holds)]
            fabric.step_done(rank, step)
            assert fabric.rotate.wake_at(fabric.state) is None
    assert fabric.lit == CIRCUITS[slot_after(14, holds)]


@given(holds, st.integers(0, 100), st.lists(st.integers(0, 40), min_size=1, max_size=10))
def test_slots_in_seconds_follow_the_clock_however_late_the_controller_wakes(holds, began, waits):
    fabric = Fabric(holds, "seconds", now=began)
    now = began
    for wait in [0, *waits]:
        now += wait
        fabric.observe(TimerExpired(), now)
        assert fabric.lit == CIRCUITS[slot_after(now - began, holds)]
        wake_at = fabric.rotate.wake_at(fabric.state)
        assert now < wake_at
        assert slot_after(wake_at - began, holds) == (slot_after(now - began, holds) + 1) % 3
        assert slot_after(wake_at - began - 0.5, holds) == slot_after(now - began, holds)


def test_a_rotation_makes_a_thousand_changes_in_succession():
    fabric = Fabric([1, 1, 1], "seconds")
    while fabric.changes < 1000:
        now = fabric.rotate.wake_at(fabric.state)
        fabric.observe(TimerExpired(), now)
        assert fabric.lit == CIRCUITS[int(now) % 3]
    assert now == 999.0


def test_a_rotation_commands_no_change_during_another():
    rotate = Rotate("main", [TimeSlot(links, 1) for links in MATCHINGS], "seconds")
    state = rotate.begin(View(0.0, {"main": JOB}))
    state, (first,) = rotate.step(state, 0.0, TimerExpired())
    assert first == ChangeCircuits(frozenset(), CIRCUITS[0])
    assert rotate.wake_at(state) is None
    state, none = rotate.step(state, 1.5, JobObserved("main", StepDone(0, 1)))
    assert none == ()
    state, (second,) = rotate.step(state, 2.5, CircuitsChanged())  # slot 1 passed meanwhile
    assert second == ChangeCircuits(CIRCUITS[0], CIRCUITS[2])


def test_a_rotation_does_not_change_circuits_that_are_lit_already():
    rotate = Rotate("main", [TimeSlot(links, 1) for links in MATCHINGS])
    state = rotate.begin(View(0.0, {"main": JOB}, circuits=CIRCUITS[0]))
    assert rotate.step(state, 0.0, TimerExpired())[1] == ()


def test_a_rotation_with_one_slot_never_changes_circuits():
    rotate = Rotate("main", [TimeSlot(MATCHINGS[0], 1)], "seconds")
    state, _ = rotate.step(rotate.begin(View(5.0, {"main": JOB})), 5.0, TimerExpired())
    state, none = rotate.step(state, 99.0, CircuitsChanged())
    assert none == ()
    assert rotate.wake_at(state) is None


def test_replacement_hosts_get_the_circuits_of_their_ranks():
    fabric = Fabric([1, 1, 1], "steps")
    fabric.observe(TimerExpired())
    spliced = job_of(["h0", "h9", "h2", "h3"])
    fabric.observe(MembershipChanged("main", spliced))
    assert fabric.lit == circuits_of_links(MATCHINGS[0], spliced.ports)
    fabric.observe(MembershipChanged("other", JOB))
    assert fabric.lit == circuits_of_links(MATCHINGS[0], spliced.ports)


@given(holds, st.integers(0, 20), st.integers(0, 20))
def test_a_job_that_returns_to_an_earlier_step_gets_the_slot_of_that_step(holds, done, restored):
    fabric = Fabric(holds, "steps")
    fabric.observe(TimerExpired())
    for step in range(1, done + 1):
        for rank in range(4):
            fabric.step_done(rank, step)
    fabric.observe(MembershipChanged("main", replace(JOB, step=restored)))
    assert fabric.lit == CIRCUITS[slot_after(restored, holds)]
    for rank in range(4):
        fabric.step_done(rank, restored + 1)
    assert fabric.lit == CIRCUITS[slot_after(restored + 1, holds)]


def test_a_job_with_fewer_ranks_keeps_the_links_of_the_remaining_ranks():
    fabric = Fabric([1, 1, 1], "steps")
    fabric.observe(TimerExpired())
    fewer = job_of(["h0", "h1", "h2"])
    fabric.observe(MembershipChanged("main", fewer))
    assert fabric.lit == {Circuit.parse("h1.p0", "h2.p0")}  # rank 0 had met rank 3
    fabric.step_done(3, 99)  # a rank that is no more
    for rank in range(3):
        fabric.step_done(rank, 1)
    assert fabric.lit == {Circuit.parse("h0.p0", "h2.p0")}


def test_steps_of_other_jobs_change_no_circuits():
    fabric = Fabric([1, 1, 1], "steps")
    fabric.observe(TimerExpired())
    for rank in range(4):
        fabric.step_done(rank, 1, job="other")
    assert fabric.lit == CIRCUITS[0]


def test_a_rotation_repeats_a_change_that_failed():
    outcomes = [ChangeFailed("busy")] * (ATTEMPTS - 1) + [CircuitsChanged()]
    fabric = Fabric([1, 1, 1], "seconds")
    fabric.observe(TimerExpired(), 0.0, iter(outcomes).__next__)
    assert (fabric.lit, fabric.failed) == (CIRCUITS[0], "")


def test_a_rotation_ends_after_repeated_failures_of_a_change():
    fabric = Fabric([1, 1, 1], "seconds")
    fabric.observe(TimerExpired(), 0.0, lambda: ChangeFailed("the switch is busy"))
    assert fabric.failed == f"{ATTEMPTS} changes in a row failed: the switch is busy"
    assert fabric.rotate.wake_at(fabric.state) is None
    assert fabric.rotate.step(fabric.state, 1.0, TimerExpired()) == (fabric.state, ())


def test_a_spare_without_the_port_of_a_link_ends_the_rotation():
    fabric = Fabric([1, 1, 1], "steps")
    fabric.observe(TimerExpired())
    ports = (*JOB.ports[:3], ())
    fabric.observe(MembershipChanged("main", replace(JOB, ports=ports)))
    assert fabric.failed == "rank 3 has 0 fabric ports, and no port 0"


def test_the_scope_of_a_rotation_is_the_circuits_of_its_job():
    assert Rotate("main", [TimeSlot(MATCHINGS[0], 1)]).scopes == (Scope("circuits", "main"),)


@pytest.mark.parametrize(
    ("slots", "unit", "reason"),
    [
        ([], "steps", "at least one time slot"),
        ([TimeSlot(MATCHINGS[0], 0.5)], "steps", "at least 1 step, not 0.5 steps"),
        ([TimeSlot(MATCHINGS[0], 1e-9)], "seconds", "at least 1 µs, not 1e-09 seconds"),
        ([TimeSlot(MATCHINGS[0], float("inf"))], "seconds", "not inf"),
        ([TimeSlot(MATCHINGS[0], float("nan"))], "seconds", "not nan"),
    ],
)
def test_an_invalid_table_of_time_slots_is_refused(slots, unit, reason):
    with pytest.raises(ValueError, match=reason):
        Rotate("main", slots, unit)


def test_time_slots_with_ranks_or_ports_that_the_job_lacks_are_refused():
    rotate = Rotate("main", [TimeSlot(AllToAll().matchings(6, 1)[0], 1)])
    with pytest.raises(ValueError, match=r"there is no rank . among the 4 ranks"):
        rotate.begin(View(0.0, {"main": JOB}))
    no_ports = replace(JOB, ports=((HostPort("h0", "p0"),), (), (), ()))
    with pytest.raises(ValueError, match="has 0 fabric ports, and no port 0"):
        Rotate("main", [TimeSlot(MATCHINGS[0], 1)]).begin(View(0.0, {"main": no_ports}))


# --- tables as files write them ----------------------------------------------------------------


def test_every_matching_of_a_topology_has_a_slot_of_its_own():
    rotate = Rotate("main", [TopologySlots(AllToAll(), 2.0), TimeSlot(frozenset(), 1.0)], "seconds")
    view = View(0.0, {"main": JOB})
    assert rotate.circuits(view) == (*CIRCUITS, frozenset())
    assert [slot.hold for slot in rotate.begin(view).table] == [2.0, 2.0, 2.0, 1.0]


def test_topologies_use_no_more_ports_than_every_rank_has():
    ports = (*job_of(["h0", "h1", "h2"], per_host=2).ports, JOB.ports[3])
    rotate = Rotate("main", [TopologySlots(AllToAll(), 1)])
    assert rotate.circuits(View(0.0, {"main": replace(JOB, ports=ports)})) == tuple(CIRCUITS)


def test_a_table_of_a_file_is_by_steps_or_by_seconds():
    view = View(7.0, {"main": job_of(["h0", "h1", "h2"], per_host=2)})
    ring, pair = RotateSlot(topology="ring", steps=5), RotateSlot(links=((0, 2),), steps=1)
    by_steps = rotate(RotateOptions((ring, pair)), "main")
    assert [len(one) for one in by_steps.circuits(view)] == [3, 1]
    state, _ = by_steps.step(by_steps.begin(view), 7.0, TimerExpired())
    assert by_steps.wake_at(state) is None
    assert [slot.hold for slot in state.table] == [5.0, 1.0]
    slots = RotateSlot(topology="ring", hold=0.5), RotateSlot(links=(), hold=0.25)
    by_seconds = rotate(RotateOptions(slots), "main")
    assert by_seconds.circuits(view)[1] == frozenset()
    state = by_seconds.begin(view)
    state, (change,) = by_seconds.step(state, 7.0, TimerExpired())
    state, _ = by_seconds.step(state, 7.1, CircuitsChanged())
    assert (len(change.add), by_seconds.wake_at(state)) == (3, 7.5)


FOLLOWED = replace(JOB, requests=(frozenset(), *CIRCUITS))
"""A job whose ranks are told of the circuits of each slot."""


def following(holds=(1, 1, 1), unit="seconds", job=FOLLOWED):
    slots = [TimeSlot(links, hold) for links, hold in zip(MATCHINGS, holds, strict=False)]
    rotate = Rotate("main", slots, unit)
    return rotate, rotate.begin(View(0.0, {"main": job}))


def told(circuits, left, hold=1, number=1, finished=JOB.step):
    which = {"do": "slot", "number": number, "circuits": circuits}
    message = {**which, "hold": hold, "left": left, "finished": finished}
    return CommandJob("main", Tell((0, 1, 2, 3), message))


def test_ranks_that_follow_slots_are_told_once_of_circuits_that_are_lit_and_identified():
    rotate, state = following()
    state, (change,) = rotate.step(state, 0.0, TimerExpired())
    assert change == ChangeCircuits(frozenset(), CIRCUITS[0], identify=True)
    state, commands = rotate.step(state, 0.25, CircuitsChanged())
    assert commands == (told(1, 0.75),)
    state, commands = rotate.step(state, 0.5, JobObserved("main", StepDone(0, 1)))
    assert commands == ()
    state, (change,) = rotate.step(state, 1.0, TimerExpired())
    assert change == ChangeCircuits(CIRCUITS[0], CIRCUITS[1], identify=True)
    assert rotate.step(state, 1.5, CircuitsChanged())[1] == (told(2, 0.5, number=2),)


def test_ranks_are_told_which_step_the_slowest_of_them_has_finished():
    rotate, state = following()
    state, _ = rotate.step(state, 0.0, TimerExpired())
    for rank, step in enumerate((8, 6, 9, 7)):
        state, _ = rotate.step(state, 0.1, JobObserved("main", StepDone(rank, step)))
    assert rotate.step(state, 0.25, CircuitsChanged())[1] == (told(1, 0.75, finished=6),)


def test_ranks_are_told_of_a_slot_whose_circuits_are_lit_already():
    rotate = Rotate("main", [TimeSlot(MATCHINGS[0], 1), TimeSlot(MATCHINGS[0], 2)], "seconds")
    state = rotate.begin(View(0.0, {"main": FOLLOWED}, circuits=CIRCUITS[0]))
    state, commands = rotate.step(state, 0.0, TimerExpired())
    assert commands == (told(1, 1.0),)
    assert rotate.step(state, 1.0, TimerExpired())[1] == (told(1, 2.0, hold=2, number=2),)


def test_ranks_are_not_told_of_a_slot_that_was_over_before_its_circuits_were_lit():
    rotate, state = following()
    state, _ = rotate.step(state, 0.0, TimerExpired())
    state, (change,) = rotate.step(state, 1.25, CircuitsChanged())
    assert change == ChangeCircuits(CIRCUITS[0], CIRCUITS[1], identify=True)
    assert rotate.step(state, 1.5, CircuitsChanged())[1] == (told(2, 0.5),)


def test_a_rotation_fails_when_slots_are_over_before_their_circuits_are_lit():
    rotate, state = following()
    state, _ = rotate.step(state, 0.0, TimerExpired())
    for number in range(MISSED - 1):
        state, (change,) = rotate.step(state, 1.25 + number, CircuitsChanged())
        assert isinstance(change, ChangeCircuits)
    state, (failed,) = rotate.step(state, 0.25 + MISSED, CircuitsChanged())
    assert failed == Fail(
        "20 time slots in a row were over before their circuits were lit: hold them for longer"
    )
    assert rotate.wake_at(state) is None


@pytest.mark.parametrize(
    ("unit", "requests", "complaint"),
    [
        ("steps", CIRCUITS, "are held for a time: write `hold`"),
        ("seconds", CIRCUITS[:2], "time slots of the job, and these are others"),
    ],
)
def test_slots_that_ranks_cannot_follow_are_refused(unit, requests, complaint):
    with pytest.raises(ValueError, match=complaint):
        following(unit=unit, job=replace(JOB, requests=(frozenset(), *requests)))
