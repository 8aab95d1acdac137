"""Two controllers on one switch and two faults: all orders of events, and bugs that are found."""

import random
from dataclasses import replace

import pytest

from testbed.control import protocol
from testbed.control.controller import PolicyController, View
from testbed.control.descriptors import SpliceOptions
from testbed.control.repair import Repair
from testbed.control.rotate import Rotate
from testbed.control.splice import Splice
from testbed.fabric.topology import ring
from tests.unit.control.fabric_model import REFUSAL, Model
from tests.unit.control.job_model import job_of
from tests.unit.control.model_checker import explore
from tests.unit.control.test_controller_interleavings import (
    HOSTS,
    MEETINGS,
    REPLACED,
    TURNS,
    due_by_turns,
)

DEPTH = 12
PORTS = {f"h{n}": ("p0", "p1") for n in range(12)}
A, B = ["h0", "h1", "h2"], ["h3", "h4", "h5"]
SPARES = {"a": ("h6", "h7"), "b": ("h8", "h9")}


def due_rings(name, job, step, now):
    return ring(job.hosts, PORTS)


def due_with_rotation(name, job, step, now):
    return due_rings(name, job, step, now) if name == "a" else due_by_turns(name, job, step, now)


def spliced(name, hosts, policy):
    """Return a recovery of one job, with what it begins with."""
    fences = dict.fromkeys(PORTS, ("process",))
    job = job_of(hosts, per_host=2)
    view = View(0.0, {name: job}, SPARES[name], PORTS, fences, ring(hosts, PORTS))
    return PolicyController(policy(SpliceOptions()), name), view


def two_rotations(policy=Splice, rotate=Rotate):
    jobs = {name: job_of(of, per_host=2) for name, of in HOSTS.items()}
    return Model(
        {"a": rotate("a", TURNS), "b": rotate("b", MEETINGS, "seconds")},
        {name: View(0.0, {name: job}) for name, job in jobs.items()},
        due_by_turns,
        frozenset({"replace a", "replace b"}),
        {name: job_of(of, per_host=2) for name, of in REPLACED.items()},
        paced=frozenset("a"),
    )


def recovery_beside_rotation(policy=Splice, rotate=Rotate, faults=("kill a", REFUSAL)):
    a, spare = spliced("a", A, policy)
    job = job_of(B, per_host=2)
    return Model(
        {"a": a, "b": rotate("b", MEETINGS, "seconds")},
        {"a": spare, "b": View(0.0, {"b": job})},
        due_with_rotation,
        frozenset(faults),
        {"b": job_of(["h3", "h10", "h5"], per_host=2)},
        unordered=frozenset("a"),
    )


def two_recoveries(policy=Splice, rotate=Rotate):
    both = {"a": spliced("a", A, policy), "b": spliced("b", B, policy)}
    return Model(
        {name: controller for name, (controller, _) in both.items()},
        {name: view for name, (_, view) in both.items()},
        due_rings,
        frozenset({"kill a", "kill b"}),
        unordered=frozenset("ab"),
    )


def recovery_of_two_hosts(policy=Splice, rotate=Rotate):
    return recovery_beside_rotation(policy, rotate, ("kill a 1", "kill a 2"))


def recovery_of_two_hosts_alone(policy=Splice, rotate=Rotate):
    """Return the last scene without the controller beside it: as deep, with few of its orders."""
    a, spare = spliced("a", A, policy)
    faults = frozenset({"kill a 1", "kill a 2"})
    return Model({"a": a}, {"a": spare}, due_rings, faults, unordered=frozenset("a"))


SCENES = {
    "recovery beside rotation": recovery_beside_rotation,
    "two recoveries": two_recoveries,
    "two rotations": two_rotations,
    "recovery of two hosts": recovery_of_two_hosts,
}
ALONE = {"recovery of two hosts alone": recovery_of_two_hosts_alone}
"""Where bugs are looked for that take many events to show; beside a rotation, in the soak."""


def explored(model, depth=DEPTH):
    return explore(model.start(), model.moves, model.wrong, depth)


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("depth", [9, pytest.param(DEPTH, marks=pytest.mark.soak)])
def test_two_controllers_are_safe_in_every_order_of_two_faults(scene, depth):
    found = explored(SCENES[scene](), depth)
    assert not found.wrong, found.trace
    assert found.states > (200 if depth < DEPTH else 500)


@pytest.mark.parametrize("scene", ["recovery beside rotation", "two recoveries"])
@pytest.mark.soak
def test_recoveries_beside_another_controller_are_safe_to_their_end(scene):
    found = explored(SCENES[scene](), 30)
    assert not found.wrong, found.trace


@pytest.mark.parametrize("scene", SCENES)
def test_both_jobs_are_whole_at_the_end_of_random_orders(scene):
    """Beyond the depth of the search: on until both faults struck and only timers are left."""
    model, chance = SCENES[scene](), random.Random(1)
    for _ in range(100):
        world = model.start()
        for _ in range(80):
            moves = [move for move in model.moves(world) if not move[0].startswith("timer")]
            if not moves:
                break
            _, world = chance.choice(moves)
            assert not model.wrong(world)
        for member in world.members:
            assert not member.dead & {*member.job.hosts}


# --- bugs that are planted -------------------------------------------------------------------


def hears(change):
    """Return a policy that hears something else instead of each observation, or nothing."""

    class Deaf(Splice):
        def step(self, state, observation):
            heard = change(state, observation)
            return (state, ()) if heard is None else super().step(state, heard)

    return Deaf


def commands(change):
    """Return a policy that commands something else instead of each command, or nothing."""

    class Clumsy(Splice):
        def step(self, state, observation):
            after, wanted = super().step(state, observation)
            made = (change(state, command) for command in wanted)
            return after, tuple(command for command in made if command is not None)

    return Clumsy


def instead_of(kind, other):
    return lambda state, what: other(state, what) if isinstance(what, kind) else what


def during_a_repair(state):
    return isinstance(state.repair, Repair) and not state.repair.joined


def of_any_command(state, what):
    return protocol.LinksGood()


RING_OF_B = ring(B, PORTS)
DEADLOCK = "deadlock: nothing is under way, and a has not recovered"
STATELESS = "unsafe: a rank of a goes on without its state"
UNLIT = "unsafe: a forms a generation without its circuits"

BUGS = {
    "takes Superseded for verified links": (
        hears(instead_of(protocol.Superseded, of_any_command)),
        "recovery of two hosts alone", UNLIT, 14,
    ),
    "takes links of an earlier command for those of the last": (
        hears(instead_of(protocol.LinksGood, of_any_command)),
        "recovery of two hosts alone", UNLIT, 14,
    ),
    "ignores that a rank ended during a recovery": (
        hears(instead_of(
            protocol.RankEnded, lambda state, what: None if during_a_repair(state) else what
        )), "recovery of two hosts", DEADLOCK, 12,
    ),
    "forgets that a spare is ready": (
        hears(instead_of(protocol.SpareReady, lambda state, what: None)),
        "recovery beside rotation", DEADLOCK, 12,
    ),
    "forgets a fence": (
        hears(instead_of(protocol.Fenced, lambda state, what: None)),
        "two recoveries", DEADLOCK, 12,
    ),
    "does not make the survivors leave": (
        commands(instead_of(protocol.Leave, lambda state, what: None)),
        "recovery beside rotation", DEADLOCK, 12,
    ),
    "forms a generation without the newcomer's state": (
        commands(instead_of(protocol.Join, lambda state, what: replace(what, restore={}))),
        "recovery beside rotation", STATELESS, 12,
    ),
    "goes on from a step that not all have": (
        commands(instead_of(
            protocol.Join, lambda state, what: replace(what, committed=what.committed + 1)
        )), "recovery beside rotation", "unsafe: ranks of a go on from different steps", 12,
    ),
    "lets the victim join again": (
        commands(instead_of(protocol.Join, lambda state, what: replace(what, hosts=tuple(A)))),
        "recovery beside rotation", "unsafe: a fenced host joins a again", 12,
    ),
    "gives light to the victim": (
        commands(instead_of(
            protocol.SetCircuits, lambda state, what: replace(what, circuits=ring(A, PORTS))
        )), "recovery beside rotation", "unsafe: a gives light to a fenced host", 12,
    ),
    "takes a circuit of another job": (
        commands(instead_of(
            protocol.SetCircuits, lambda state, what: replace(what, circuits=RING_OF_B)
        )), "two recoveries", "circuit of another: ", 12,
    ),
    "gives up at the second failure": (
        commands(instead_of(
            protocol.Decide,
            lambda state, what: protocol.GiveUp("no") if during_a_repair(state) else what,
        )), "recovery of two hosts", "a gave up: no", 12,
    ),
}  # fmt: skip
"""What is wrong: the policy, where that shows, what is found, and within how many events."""


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_gives_a_shortest_counterexample(bug):
    policy, scene, wrong, within = BUGS[bug]
    found = explored((SCENES | ALONE)[scene](policy), within)
    assert found.wrong.startswith(wrong), found
    assert 4 <= len(found.trace) <= within


@pytest.mark.soak
@pytest.mark.parametrize("bug", [bug for bug, (_, scene, *_) in BUGS.items() if scene in ALONE])
def test_a_bug_that_shows_late_is_found_beside_a_rotation(bug):
    policy, _, wrong, within = BUGS[bug]
    found = explored(recovery_of_two_hosts(policy), within)
    assert found.wrong.startswith(wrong), found
