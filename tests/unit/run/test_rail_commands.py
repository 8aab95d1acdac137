"""The controller of rails with a switch that answers on a real line."""

import threading
from dataclasses import replace

import pytest

from testbed.clock import Deadline
from testbed.control import protocol
from testbed.control.controller import (
    JobObserved,
    JobView,
    MembershipChanged,
    Scope,
    TimerExpired,
    View,
)
from testbed.control.descriptors import RailsOptions
from testbed.control.rail_moves import MoveRail, RecordHeld
from testbed.control.rails import Rails
from testbed.events.origin import Origin, attributed
from testbed.fabric.fibre_plant import rank_ports
from testbed.rails.rail import Move
from testbed.rails.stage import Stage, circuits_of
from testbed.run.controllers import ControllerExecutor
from testbed.run.rail_commands import RailCommands
from tests.unit.run.lab_at_far_ends import HOSTS, LabAtFarEnds, soon

GROUPS = {"dp0": (0, 1), "dp1": (2, 3), "pp0": (0, 2), "pp1": (1, 3)}
RANKS = HOSTS[:4]
LONG = 10.0
"""Seconds that nobody here may wait for."""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    lab = LabAtFarEnds(tmp_path, monkeypatch)
    yield lab
    lab.close()


class RailsAtWork:
    """Four ranks on one rail, whose requests the test makes for them."""

    def __init__(self, lab, inbox, mode):
        self.lab, self.inbox = lab, inbox
        self.bench, log = lab.bench((), ())
        self.lease = lab.make_ready(self.bench)
        self.bench.fabric.set_circuits("main", frozenset(), soon())
        lab.log_events.clear()
        self.ports = rank_ports(RANKS, self.bench.lab.ports())
        self.commands = RailCommands(self.bench, inbox, log, "main")
        self.told = []
        tell = {protocol.Tell: lambda command, sender: self.told.append(command)}
        view = View(0.0, {"main": JobView(RANKS, self.ports, groups=GROUPS)})
        rails = {"rails": Rails(RailsOptions(mode), "main")}
        self.executor = ControllerExecutor(
            rails, view, inbox, log, self.commands.handlers, {"main": tell}
        )
        inbox.handler = self.executor.handle
        self.executor.begin()
        for name, ranks in GROUPS.items():
            for rank in ranks:
                self.executor.observe(JobObserved("main", protocol.GroupJoined(rank, name)))

    def tell_of_motion(self):
        """Have the switch tell of mirrors that move, as those of other makers do."""
        driver = self.bench.switches["ocs"]
        driver._capabilities = replace(driver.capabilities, motion_unseen=False)

    def reach(self, name, number=0):
        stage = Stage(name, number, GROUPS[name])
        for rank in stage.ranks:
            self.executor.observe(JobObserved("main", protocol.StageReached(rank, stage)))

    def leave(self, name, following=None):
        stage = following and Stage(following, 0, GROUPS[following])
        for rank in GROUPS[name]:
            mine = stage if stage and rank in stage.ranks else None
            self.executor.observe(JobObserved("main", protocol.StageLeft(rank, mine)))

    def are_told(self, name):
        def is_lit():
            said = [one.message for one in self.told]
            return name in [one["group"] for one in said if one["do"] == "stage-lit"]

        return self.inbox.wait(is_lit, soon())

    def circuits(self, name):
        return circuits_of(Stage(name, 0, GROUPS[name]), GROUPS[name], self.ports)

    @property
    def lit(self):
        owned, owner = self.bench.fabric.owned, self.commands.owner
        return frozenset().union(*(owned.of(owner("rail0", name)) for name in GROUPS))


@pytest.fixture
def at_work(lab, inbox):
    made = []

    def start(mode="on-demand"):
        made.append(RailsAtWork(lab, inbox, mode))
        return made[0]

    yield start
    for one in made:
        one.executor.end()
        one.lease.release()
        lab.put_back(one.bench)


CHANGES = {
    False: (4, "what is in the way of pp0 goes in the same change"),
    True: (5, "what is in the way of pp0 goes first, and pp1 settles beside it"),
}


@pytest.mark.parametrize("tells_of_motion", CHANGES)
def test_circuits_of_stages_are_made_on_the_switch_and_their_ranks_are_told(
    at_work, tells_of_motion
):
    rails = at_work()
    if tells_of_motion:
        rails.tell_of_motion()
    for name in ("dp0", "dp1"):
        rails.reach(name)
        assert rails.are_told(name)
    assert rails.lit == rails.circuits("dp0") | rails.circuits("dp1")
    for name in ("dp0", "dp1"):
        rails.leave(name)
    for name in ("pp0", "pp1"):
        rails.reach(name)
    assert rails.are_told("pp0")
    assert rails.are_told("pp1")
    assert rails.lit == rails.circuits("pp0") | rails.circuits("pp1")
    assert rails.executor.failure == ""
    rails.bench.fabric.check(soon())  # the switch reads the same
    changes = [event for event in rails.lab.log_events if event.kind == "fabric.change"]
    count, why = CHANGES[tells_of_motion]
    assert len(changes) == count, why


def test_nothing_goes_until_those_at_both_ends_have_left(at_work):
    rails = at_work()
    for name in ("dp0", "dp1"):
        rails.reach(name)
        assert rails.are_told(name)
    stage = Stage("pp0", 0, GROUPS["pp0"])
    for rank in stage.ranks:
        rails.executor.observe(JobObserved("main", protocol.StageReached(rank, stage)))
    assert rails.lit == rails.circuits("dp0") | rails.circuits("dp1")
    rails.executor.observe(JobObserved("main", protocol.StageLeft(1, None)))
    assert rails.lit == rails.circuits("dp0") | rails.circuits("dp1")
    rails.executor.observe(JobObserved("main", protocol.StageLeft(3, None)))
    assert rails.are_told("pp0")
    assert rails.lit == rails.circuits("pp0")


def test_provisioned_circuits_are_there_before_anybody_asks(at_work):
    rails = at_work("provisioned")
    for name in ("dp0", "dp1"):
        rails.reach(name)
        assert rails.are_told(name)
    rails.leave("dp0", "pp0")
    rails.leave("dp1", "pp0")
    assert rails.are_told("pp0")
    assert rails.lit == rails.circuits("pp0")


def test_without_the_lease_nothing_is_moved_and_the_end_names_the_stage(at_work):
    rails = at_work()
    rails.lab.leases.unlock(sorted(rails.lease.resources), forced=True)
    rails.reach("dp0")
    assert rails.inbox.wait(lambda: bool(rails.executor.failure), soon())
    assert rails.executor.failure.startswith(
        "rails: 3 attempts to make the circuits of dp0 0 on rail0 failed: "
    )
    assert rails.lit == frozenset()


@pytest.mark.parametrize("tells_of_motion", CHANGES)
def test_a_change_that_waits_when_its_job_ends_moves_nothing(at_work, tells_of_motion):
    rails = at_work()
    if tells_of_motion:
        rails.tell_of_motion()
    for name in ("dp0", "dp1"):
        rails.reach(name)
        assert rails.are_told(name)
        rails.leave(name)
    is_removing, may_go_on = threading.Event(), threading.Event()

    def hold_the_switch():
        is_removing.set()
        may_go_on.wait(LONG)

    rails.lab.on_act = hold_the_switch
    rails.lab.acts.clear()
    for name in ("pp0", "pp1"):  # the second waits until the first has removed what is in the way
        rails.reach(name)
    assert is_removing.wait(LONG)
    rails.inbox.handler = lambda item: may_go_on.set()
    rails.inbox.observe(TimerExpired())  # the first that is handled once the controller has ended
    rails.executor.end()
    assert may_go_on.is_set()
    under_way = frozenset() if tells_of_motion else rails.circuits("pp0")
    assert [kind for kind, _ in rails.lab.acts] == ["isolate" if tells_of_motion else "connect"]
    assert rails.lit == under_way


def with_another(rails, name, generation=2):
    """Have another host take the place of rank 1; return its circuits with the group's others."""
    hosts = (RANKS[0], HOSTS[4], *RANKS[2:])
    rails.ports = rank_ports(hosts, rails.bench.lab.ports())
    members = JobView(hosts, rails.ports, generation, groups=GROUPS)
    rails.executor.observe(MembershipChanged("main", members))
    for rank in GROUPS[name]:
        rails.executor.observe(JobObserved("main", protocol.GroupJoined(rank, name)))
    return rails.circuits(name)


def test_circuits_to_a_host_that_was_replaced_go_when_their_ports_are_needed(at_work):
    rails = at_work()
    rails.reach("dp0")
    assert rails.are_told("dp0")
    before = rails.lit
    rails.told.clear()
    wanted = with_another(rails, "dp0")
    rails.reach("dp0")
    assert rails.are_told("dp0")
    assert rails.executor.failure == ""
    assert rails.lit == wanted
    assert wanted.isdisjoint(before)
    rails.bench.fabric.check(soon())


def test_nothing_is_made_to_a_host_that_was_given_up_and_nothing_fails(at_work):
    rails = at_work()
    gone = rails.bench.hosts.pop(RANKS[1])
    rails.reach("dp0")
    has_moved = rails.inbox.wait(lambda: bool(rails.lit), Deadline.after(0.5))
    assert not has_moved and not rails.executor.failure
    assert not [one for one in rails.told if one.message["do"] == "stage-lit"]
    rails.bench.hosts[RANKS[1]] = gone


@pytest.mark.parametrize("tells_of_motion", CHANGES)
def test_a_host_that_is_given_up_while_circuits_are_made_to_it_is_not_left_with_any(
    at_work, tells_of_motion
):
    rails, gone = at_work(), {}
    if tells_of_motion:
        rails.tell_of_motion()

    def give_up():
        gone.update({RANKS[1]: rails.bench.hosts.pop(RANKS[1], None) or gone[RANKS[1]]})

    rails.lab.on_act = give_up
    rails.reach("dp0")
    owned = rails.bench.fabric.owned
    assert rails.inbox.wait(lambda: bool(gone) and not owned.all, soon())
    assert not [one for one in rails.told if one.message["do"] == "stage-lit"]
    assert not rails.executor.failure
    rails.bench.hosts |= gone


class HoldsBack:
    """A controller that holds a stage back once, and asks for its circuits as a timer ends."""

    def __init__(self, move):
        self.scopes = (Scope("circuits", "main"),)
        self._move = move

    def begin(self, view):
        return None

    def wake_at(self, due):
        return due

    def step(self, due, at, observation):
        if isinstance(observation, TimerExpired):
            return None, (MoveRail("rail0", self._move),)
        if due is None and isinstance(observation, JobObserved):
            return at + 0.02, (RecordHeld("rail0", self._move.stage, 0.02),)
        return due, ()


def test_a_change_that_a_timer_decides_on_names_the_record_of_the_stage_held_back(lab, inbox):
    bench, log = lab.bench((), ())
    lease = lab.make_ready(bench)
    bench.fabric.set_circuits("main", frozenset(), soon())
    lab.log_events.clear()
    stage, ports = Stage("dp0", 0, GROUPS["dp0"]), rank_ports(RANKS, bench.lab.ports())
    circuits = circuits_of(stage, GROUPS["dp0"], ports)
    holds = {"rails": HoldsBack(Move(0, stage, frozenset(), circuits))}
    commands = RailCommands(bench, inbox, log, "main").handlers
    executor = ControllerExecutor(holds, View(0.0, {}), inbox, log, commands, {})
    inbox.handler = executor.handle
    with attributed(Origin("main", cause=7)):  # that of the last rank that left
        executor.observe(JobObserved("main", protocol.StageLeft(1, stage)))
    assert inbox.wait(lambda: len(lab.log_events) > 1, soon())
    executor.end()
    held, change = lab.log_events[:2]
    assert (held.kind, held.subject, held.origin.cause) == ("stage.held", "dp0", 7)
    assert held.data["stage"][:2] == ["dp0", 0] and held.data["seconds"] == 0.02
    assert (change.kind, change.origin.cause) == ("fabric.change", held.seq)
    lease.release()
    lab.put_back(bench)
