"""Two controllers on one switch and two faults, in every order of events to depth 12."""

import re

import pytest

from testbed.control.controller import ChangeFailed, MembershipChanged, PolicyController, View
from testbed.control.descriptors import SpliceOptions
from testbed.control.rotate import Rotate, TimeSlot
from testbed.control.splice import Splice
from testbed.fabric.fibre_plant import circuits_of_links
from testbed.fabric.links import link
from testbed.fabric.topologies import AllToAll
from testbed.fabric.topology import ring
from tests.unit.control.fabric_model import REFUSAL, Model
from tests.unit.control.job_model import job_of
from tests.unit.control.model_checker import explore

DEPTH = 12
TURNS = [TimeSlot(frozenset({link((0, port), (1, port))}), 1) for port in (0, 1)]
"""Of job a: two ranks, joined by their first ports for a step, then by their second ones."""
MEETINGS = [TimeSlot(links, 2.0) for links in AllToAll().matchings(3, 1)]
"""Of job b: three ranks, of which two meet for two seconds while one pauses."""
HOSTS = {"a": ["h0", "h1"], "b": ["h2", "h3", "h4"]}
REPLACED = {"a": ["h0", "h5"], "b": ["h2", "h6", "h4"]}
PORTS = {f"h{n}": ("p0", "p1") for n in range(7)}


def due_by_turns(name, job, step, now):
    slot = TURNS[step % 2] if name == "a" else MEETINGS[int(now // 2.0) % 3]
    return circuits_of_links(slot.links, job.ports)


def due_beside_a_ring(name, job, step, now):
    return ring(job.hosts, PORTS) if name == "a" else due_by_turns(name, job, step, now)


def rotations(*faults, a=Rotate, hosts=HOSTS):
    """Return two rotations: job a by steps, job b by seconds."""
    jobs = {name: job_of(of, per_host=2) for name, of in hosts.items()}
    return Model(
        {"a": a("a", TURNS), "b": Rotate("b", MEETINGS, "seconds")},
        {name: View(0.0, {name: job}) for name, job in jobs.items()},
        due_by_turns,
        frozenset(faults),
        {name: job_of(of, per_host=2) for name, of in REPLACED.items()},
        paced=frozenset("a"),
    )


def recovery_beside_rotation(*faults):
    """Return the policy `splice` for a ring of two hosts, beside a rotation by seconds."""
    a, b = (job_of(of, per_host=2) for of in HOSTS.values())
    fences = dict.fromkeys(PORTS, ("process",))
    spliced = View(0.0, {"a": a}, ("h5",), PORTS, fences, ring(a.hosts, PORTS))
    return Model(
        {
            "a": PolicyController(Splice(SpliceOptions()), "a"),
            "b": Rotate("b", MEETINGS, "seconds"),
        },
        {"a": spliced, "b": View(0.0, {"b": b})},
        due_beside_a_ring,
        frozenset(faults),
        {"b": job_of(REPLACED["b"], per_host=2)},
        unordered=frozenset("a"),
    )


def explored(model, depth=DEPTH):
    return explore(model.start(), model.moves, model.wrong, depth)


@pytest.mark.parametrize(
    "faults", [(REFUSAL, "replace a"), (REFUSAL, "replace b"), ("replace a", "replace b")]
)
@pytest.mark.parametrize("depth", [DEPTH, pytest.param(16, marks=pytest.mark.soak)])
def test_two_rotations_get_their_circuits_in_every_order_of_two_faults(faults, depth):
    found = explored(rotations(*faults), depth)
    assert not found.wrong, found.trace
    assert found.states > 2_000


@pytest.mark.parametrize("faults", [(REFUSAL, "kill a"), ("kill a", "replace b")])
def test_a_recovery_and_a_rotation_do_not_interfere_in_any_order_of_events(faults):
    found = explored(recovery_beside_rotation(*faults), depth=2 * DEPTH)
    assert not found.wrong, found.trace
    assert found.states > 1_000


def test_a_recovery_completes_while_another_job_rotates_its_circuits():
    def is_over(world):
        a, b = world.members
        spliced = a.job.generation == 2 and not a.inbox and not a.commands
        return "over" if spliced and a.circuits == ring(a.job.hosts, PORTS) and b.circuits else ""

    model = recovery_beside_rotation("kill a")
    found = explore(model.start(), model.moves, is_over, 2 * DEPTH)
    assert found.wrong == "over"
    assert len(found.trace) > 8


class ForgetsRefusals(Rotate):
    def step(self, state, now, observation):
        if isinstance(observation, ChangeFailed):
            return state, ()
        return super().step(state, now, observation)


class IgnoresMembershipDuringChanges(Rotate):
    def step(self, state, now, observation):
        if isinstance(observation, MembershipChanged) and state.changing_to is not None:
            return state, ()
        return super().step(state, now, observation)


def test_a_controller_that_ignores_an_outcome_is_found_as_a_deadlock():
    found = explored(rotations(REFUSAL, "replace a", a=ForgetsRefusals))
    assert found.wrong == "deadlock: nothing is under way, and a lacks its circuits"
    assert found.trace == ("timer of a", "the switch refuses a", "a observes ChangeFailed")


def test_a_controller_that_misses_a_membership_change_is_found_unsafe():
    found = explored(rotations("replace a", a=IgnoresMembershipDuringChanges))
    assert found.wrong == "unsafe: a wants light at a port that is not its job's"
    assert sorted(found.trace) == [
        "a observes ChangeFailed",
        "a observes MembershipChanged",
        "change of a",
        "replace a",
        "timer of a",
    ]


def test_two_jobs_with_a_common_port_are_found_to_conflict():
    found = explored(rotations(hosts={"a": ["h0", "h1"], "b": ["h2", "h1", "h4"]}))
    assert re.match(
        r"circuit of another: . cannot have circuit .*: port h1\.p0 is in use by .* of [ab]$",
        found.wrong,
    )
    assert sorted(found.trace) == ["change of a", "change of b", "timer of a", "timer of b"]


def test_the_model_checker_reports_the_number_of_states_it_reached():
    """Count up to 3 by ones and twos: there are 4 states, and 3 is two moves away."""

    def moves(n):
        return [(f"+{by}", n + by) for by in (1, 2) if n + by <= 3]

    def wrong(n):
        return "three" if n == 3 else ""

    assert explore(0, moves, lambda n: "", 4).states == 4
    found = explore(0, moves, wrong, 4)
    assert (found.wrong, len(found.trace)) == ("three", 2)
    assert not explore(0, moves, wrong, 1).wrong
