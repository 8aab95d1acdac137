"""The controller of rails: all orders of what ranks and the switch do, deadlines, failures."""

from dataclasses import replace

import pytest

from testbed.collectives.exchanges import matchings_of
from testbed.control import protocol
from testbed.control.controller import (
    CommandJob,
    Fail,
    JobObserved,
    JobView,
    MembershipChanged,
    Scope,
    TimerExpired,
    View,
)
from testbed.control.descriptors import RailsOptions
from testbed.control.rail_moves import MoveRail, RailMoved, RailRefused, RecordAnswer, RecordHeld
from testbed.control.rails import Rails
from testbed.fabric.circuits import Circuit, HostPort
from testbed.rails.rail import Answer
from testbed.rails.stage import Stage
from tests.unit.control.model_checker import explore
from tests.unit.rails.rail_world import MESH, RailModel, World, stages_for

HOSTS = ("h0", "h0", "h1", "h1", "h2", "h2", "h3", "h3")
"""Two ranks a host: rail0 has ranks 0, 2, 4 and 6, rail1 the others."""

GROUPS = {
    "dp0": (0, 2),
    "dp1": (1, 3),
    "pp0": (0, 4),
    "pp1": (1, 5),
    "tp0": (0, 1),
    "all": range(8),
}


def said(job, what, *about):
    """Return the observation of what a rank of a job says."""
    return JobObserved(job, what(*about))


TAKES, WINDOW = 0.1, 10.0
"""Seconds of a change of circuits, and from when ranks leave for a stage until they reach it."""


def rails_of(mode="on-demand"):
    return Rails(RailsOptions(mode), "main")


def step(controller, state, now, observation):
    """Step, and leave out what is only recorded."""
    state, commands = controller.step(state, now, observation)
    return state, tuple(one for one in commands if not isinstance(one, RecordAnswer))


def view(hosts=HOSTS, groups=GROUPS):
    seen = {}
    ports = []
    for host in hosts:
        local = seen[host] = seen.get(host, -1) + 1
        ports.append((HostPort(host, f"p{2 * local}"), HostPort(host, f"p{2 * local + 1}")))
    groups = {name: tuple(ranks) for name, ranks in groups.items()}
    return View(0.0, {"main": JobView(hosts, tuple(ports), groups=groups)})


def two_rails(mode="on-demand", groups=GROUPS):
    """Return the controller and its state once all ranks have joined their groups."""
    controller = rails_of(mode)
    state = controller.begin(view(groups=groups))
    for name, ranks in groups.items():
        for rank in ranks:
            state, commands = step(
                controller, state, 0.0, said("main", protocol.GroupJoined, rank, name)
            )
            whole = name not in ("tp0", "all") and rank == ranks[-1]
            assert [one.what.message["do"] for one in commands] == ["group-whole"] * whole
    return controller, state


def reach(controller, state, name, number=0, now=0.0, ranks=None):
    """Have the ranks of a group reach a stage; return the state and all that was commanded."""
    stage, commands = Stage(name, number, tuple(GROUPS[name])), ()
    for rank in stage.ranks if ranks is None else ranks:
        state, more = step(controller, state, now, said("main", protocol.StageReached, rank, stage))
        commands += more
    return state, commands


def told(ranks, group, number=0, links=None):
    """Return the command that tells ranks of a stage; two ranks with two ports are joined twice."""
    of = tuple(GROUPS[group])
    if links is None:
        links = [((of[0], 0), (of[1], 1)), ((of[0], 1), (of[1], 0))]
    which = {"generation": 1, "group": group, "ranks": of}
    message = {"do": "stage-lit", **which, "number": number, "links": links}
    return CommandJob("main", protocol.Tell(ranks, message))


def test_circuits_of_a_stage_are_made_and_its_ranks_are_told():
    controller, state = two_rails()
    state, (move,) = reach(controller, state, "dp0")
    assert isinstance(move, MoveRail)
    assert (move.rail, move.move.remove) == ("rail0", frozenset())
    ends = (Circuit.parse("h0.p0", "h1.p0"), Circuit.parse("h0.p1", "h1.p1"))
    assert {frozenset(c.hosts) for c in move.move.add} == {c.hosts for c in ends}
    state, commands = step(controller, state, 0.1, RailMoved("rail0", 0))
    assert commands == (told((0, 2), "dp0"),)


def test_a_stage_whose_circuits_are_lit_is_answered_at_once():
    controller, state = two_rails()
    state, _ = reach(controller, state, "dp0")
    state, _ = step(controller, state, 0.1, RailMoved("rail0", 0))
    for rank in (0, 2):
        state, _ = step(controller, state, 0.2, said("main", protocol.StageLeft, rank, None))
    state, commands = reach(controller, state, "dp0", 1)
    assert commands == (told((0, 2), "dp0", 1),)


def test_rails_do_not_wait_for_each_other():
    controller, state = two_rails()
    state, first = reach(controller, state, "dp0")
    state, second = reach(controller, state, "dp1")
    assert [command.rail for command in (*first, *second)] == ["rail0", "rail1"]
    state, commands = step(controller, state, 0.1, RailMoved("rail1", 0))
    assert commands == (told((1, 3), "dp1"),)


def test_of_groups_in_pairs_every_two_ranks_can_be_joined_and_never_all():
    whole = view(groups={"dp0": (0, 2, 4, 6), "pp0": (1, 3)})
    job = whole.jobs["main"]
    one_port = tuple(ports[:1] for ports in job.ports)
    with pytest.raises(ValueError, match="a ring of 4 ranks with 1 fibre to each neighbour takes"):
        rails_of().circuits(replace(whole, jobs={"main": replace(job, ports=one_port)}))
    in_pairs = replace(job, ports=one_port, matchings={"dp0": matchings_of((0, 2, 4, 6))})
    *of_four, of_two = rails_of().circuits(replace(whole, jobs={"main": in_pairs}))
    assert [sorted(map(str, one)) for one in of_four] == [
        ["h0.p0–h3.p0", "h1.p0–h2.p0"],
        ["h0.p0–h2.p0", "h1.p0–h3.p0"],
        ["h0.p0–h1.p0", "h2.p0–h3.p0"],
    ]
    assert sorted(map(str, of_two)) == ["h0.p2–h1.p2"]


@pytest.mark.parametrize("name", ["tp0", "all"])
def test_a_group_that_is_not_on_one_rail_needs_no_circuits(name):
    controller, state = two_rails()
    ranks = tuple(GROUPS[name])
    _, commands = reach(controller, state, name)
    assert commands == tuple(told((rank,), name, 0, []) for rank in ranks)


def test_provisioned_circuits_are_requested_as_ranks_leave_the_stage_before():
    controller, state = two_rails("provisioned")
    state, _ = reach(controller, state, "dp0")
    state, _ = step(controller, state, 0.1, RailMoved("rail0", 0))
    following = Stage("pp0", 0, (0, 4))
    state, commands = step(controller, state, 0.2, said("main", protocol.StageLeft, 2, None))
    assert commands == ()
    state, commands = step(controller, state, 0.2, said("main", protocol.StageLeft, 4, following))
    assert commands == ()
    state, (move,) = step(controller, state, 0.3, said("main", protocol.StageLeft, 0, following))
    assert move.move.stage == following
    state, commands = step(controller, state, 0.4, RailMoved("rail0", 1))
    assert commands == (told((0, 4), "pp0"),)
    assert controller.wake_at(state) is None


def test_a_rank_that_never_asks_is_named_after_the_limit():
    controller, state = two_rails()
    state, _ = reach(controller, state, "dp0", now=5.0, ranks=[0])
    assert controller.wake_at(state) == 15.0
    state, commands = step(controller, state, 15.0, TimerExpired())
    text = (
        "ranks have waited 10 s for the circuits of dp0 0, and rank 2 has not asked for them or "
        "not left the stage before"
    )
    assert commands == (Fail(text),)
    assert controller.wake_at(state) is None
    assert step(controller, state, 16.0, TimerExpired())[1] == ()


def test_circuits_that_nothing_ever_passes_are_named_after_the_limit():
    controller, state = two_rails()
    state, _ = reach(controller, state, "dp0", now=5.0)
    _, commands = step(controller, state, 15.0, TimerExpired())
    text = (
        "ranks have waited 10 s for the circuits of dp0 0, which were commanded: nothing has "
        "passed h0.p0–h1.p1 and h0.p1–h1.p0 yet"
    )
    assert commands == (Fail(text),)


def test_a_rank_that_is_silent_while_others_wait_is_named_beside_those_that_wait_for_it():
    controller, state = two_rails()
    state, _ = reach(controller, state, "dp1", now=5.0, ranks=[3])
    for rank in (0, 2):
        state, _ = step(controller, state, 6.0, said("main", protocol.HeartbeatMissed, rank))
    state, _ = step(controller, state, 7.0, said("main", protocol.StageLeft, 2, None))
    _, (failed,) = step(controller, state, 15.0, TimerExpired())
    assert "rank 1 has not asked" in failed.reason
    assert failed.reason.startswith("nothing is heard of rank 0; "), "rank 2 was heard since"


P0, P1 = HostPort("h0", "p0"), HostPort("h1", "p0")


def in_a_stage():
    """Return the controller and its state while ranks use the circuits of a stage since 1 s."""
    controller, state = two_rails()
    state, _ = step(controller, state, 0.1, said("main", protocol.CarrierLost, P1))
    state, _ = reach(controller, state, "dp0", now=0.5)
    state, _ = step(controller, state, 1.0, RailMoved("rail0", 0))
    assert controller.wake_at(state) is None, "something has passed it since: it has light"
    return controller, step(controller, state, 5.0, said("main", protocol.CarrierLost, P0))[0]


def test_a_port_that_stays_dark_in_the_midst_of_a_stage_is_named_after_the_limit():
    controller, state = in_a_stage()
    assert controller.wake_at(state) == 15.0
    _, commands = step(controller, state, 15.0, TimerExpired())
    assert commands == (Fail("h0.p0 has had no light for 10 s, in the midst of dp0 0"),)


def test_a_port_that_has_light_again_is_not_named():
    controller, state = in_a_stage()
    state, _ = step(controller, state, 14.0, said("main", protocol.CarrierFound, P0))
    assert controller.wake_at(state) is None


def test_a_port_that_no_rank_uses_may_be_dark_until_one_does():
    controller, state = in_a_stage()
    for rank in GROUPS["dp0"]:
        state, _ = step(controller, state, 6.0, said("main", protocol.StageLeft, rank, None))
    state, commands = step(controller, state, 15.0, TimerExpired())
    assert commands == ()
    assert controller.wake_at(state) == 25.0
    state, commands = reach(controller, state, "dp0", 1, now=16.0)
    assert commands == (told((0, 2), "dp0", 1),), "its circuits are lit, as far as is known here"
    _, commands = step(controller, state, 25.0, TimerExpired())
    assert commands == (Fail("h0.p0 has had no light for 10 s, in the midst of dp0 1"),)


@pytest.mark.parametrize("code", [0, -9])
def test_a_rank_that_dies_ends_the_job_at_once_and_one_that_is_done_does_not(code):
    controller, state = two_rails()
    _, commands = step(controller, state, 5.0, said("main", protocol.RankEnded, 3, code))
    assert commands == ((Fail("rank 3 ended with code -9"),) if code else ())


def test_a_change_that_is_refused_is_commanded_again_and_then_given_up():
    controller, state = two_rails()
    state, (move,) = reach(controller, state, "dp0")
    for _ in range(2):
        state, commands = step(controller, state, 0.1, RailRefused("rail0", 0, "busy"))
        assert commands == (move,)
    _, commands = step(controller, state, 0.1, RailRefused("rail0", 0, "busy"))
    text = "3 attempts to make the circuits of dp0 0 on rail0 failed: busy"
    assert commands == (Fail(text),)


def test_a_wrong_request_ends_the_run_with_the_rank_named():
    controller, state = two_rails()
    wrong = said("main", protocol.StageReached, 4, Stage("dp0", 0, (0, 2)))
    _, commands = step(controller, state, 0.0, wrong)
    assert commands == (Fail("rank 4 asks for dp0 0, in which it has no part"),)


def test_observations_of_other_jobs_and_of_old_changes_change_nothing():
    controller, state = two_rails()
    for other in (
        said("b", protocol.GroupJoined, 0, "dp0"),
        RailMoved("rail0", 7),
        said("b", protocol.StageLeft, 0, None),
    ):
        assert step(controller, state, 0.0, other) == (state, ())


def test_ranks_on_other_hosts_begin_anew_and_old_circuits_make_room():
    controller, state = two_rails()
    state, _ = reach(controller, state, "dp0")
    state, _ = step(controller, state, 0.1, RailMoved("rail0", 0))
    hosts = ("h0", "h0", "h9", "h9", *HOSTS[4:])
    state, commands = step(
        controller, state, 0.2, MembershipChanged("main", view(hosts).jobs["main"])
    )
    assert commands == ()
    for rank in (0, 2):
        state, _ = step(controller, state, 0.3, said("main", protocol.GroupJoined, rank, "dp0"))
    state, (again,) = reach(controller, state, "dp0")
    assert again.move.number == 1
    assert {c.hosts for c in again.move.add} == {frozenset({"h0", "h9"})}


def test_a_stage_that_is_held_back_is_recorded_as_its_last_rank_leaves_for_it():
    controller, state = two_rails("learned")
    now, held = 0.0, []
    for iteration in range(8):  # three on demand, three early, then as was quicker
        for place, name in enumerate(("dp0", "pp0")):
            stage = Stage(name, iteration, tuple(GROUPS[name]), place)
            for rank in (*stage.ranks, 4 if name == "dp0" else 2):
                following = stage if rank in stage.ranks else None
                left = said("main", protocol.StageLeft, rank, following)
                state, commands = controller.step(state, now, left)
                held += [(rank, one) for one in commands if isinstance(one, RecordHeld)]
                state = moved_all(controller, state, now + TAKES)
            now += WINDOW
            for rank in stage.ranks:
                reached = said("main", protocol.StageReached, rank, stage)
                state, _ = controller.step(state, now, reached)
            now += TAKES * bool(state.moves)  # whoever asked early has not to wait for it
            state = moved_all(controller, state, now)
    assert held
    for rank, record in held:
        assert record.rail == "rail0" and rank == record.stage.ranks[-1]
        assert record.seconds == pytest.approx(WINDOW - 1.1 * TAKES)


def moved_all(controller, state, now):
    """Have all changes that are under way end; return the state."""
    for rail, number in tuple(state.moves):
        state, _ = controller.step(state, now, RailMoved(rail, number))
    return state


def test_a_group_of_ranks_that_the_job_lacks_is_refused():
    with pytest.raises(ValueError, match="group dp has rank 8, which the job has not"):
        rails_of().begin(view(groups={"dp": (0, 8)}))


def test_it_acts_on_the_circuits_of_its_job():
    assert rails_of("learned").scopes == (Scope("circuits", "main"),)


class ControllerModel(RailModel):
    """The controller with its ranks and a switch that refuses one change, at any time."""

    def __init__(self, stages, mode):
        self.stages = stages
        self.controller = rails_of(mode)
        state = self.controller.begin(view(("h0", "h1", "h2", "h3"), MESH))
        self.rail = next(iter(state.rules.values())).rail

    def start(self):
        state = self.controller.begin(view(("h0", "h1", "h2", "h3"), MESH))
        for name, ranks in MESH.items():
            for rank in ranks:
                state, _ = step(
                    self.controller, state, 0.0, said("main", protocol.GroupJoined, rank, name)
                )
        return World((0,) * 4, ("computes",) * 4, state)

    def moves(self, world):
        yield from super().moves(world)
        if not any(world.state.attempts.values()):
            for move in world.moves:
                left = replace(world, moves=tuple(m for m in world.moves if m != move))
                refused = RailRefused("rail0", move.number, "busy")
                yield "the switch refuses", self._done(left, self._effects(world.state, refused))

    def reach(self, state, rank, stage):
        return self._effects(state, said("main", protocol.StageReached, rank, stage))

    def leave(self, state, rank, following):
        return self._effects(state, said("main", protocol.StageLeft, rank, following))

    def ended(self, state, move):
        return self._effects(state, RailMoved("rail0", move.number))

    def wake_at(self, state):
        return None  # nothing is late here

    def _effects(self, state, observation):
        state, commands = step(self.controller, state, 0.0, observation)
        return state, [self._effect(command) for command in commands]

    def _effect(self, command):
        if isinstance(command, MoveRail):
            return command.move
        message = command.what.message
        of = next(
            stage
            for own in self.stages
            for stage in own
            if (stage.group, stage.number) == (message["group"], message["number"])
        )
        return Answer(of, True)


@pytest.mark.parametrize("mode", ["on-demand", "provisioned"])
def test_no_order_of_ranks_and_refusals_is_unsafe_or_ends_in_a_deadlock(mode):
    model = ControllerModel(stages_for(["dp", "pp"]), mode)
    found = explore(model.start(), model.moves, model.wrong, 40)
    assert not found.wrong, found.trace
    assert found.states > 200
