"""The policy `splice` against a world in which every report may come before every other.

What must never happen is asserted in the world itself, at each command.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.control.protocol import Fence, GiveUp, Join, SetCircuits
from testbed.fabric.topology import ring
from tests.unit.control.splice_world import World

committed = st.fixed_dictionaries({f"h{n}": st.integers(7, 8) for n in range(6)})
FAULTS = {
    "power cut": lambda world: world.cut_power("h1"),
    "power cut, with last words": lambda world: world.cut_power("h1", last_words=True),
    "power cut, on a silent line": lambda world: world.cut_power("h1", line_breaks=False),
    "kill": lambda world: world.kill("h1"),
    "freeze": lambda world: world.freeze("h1"),
}


@st.composite
def orders(draw):
    """Draw, again and again, who speaks next."""
    choices = draw(st.lists(st.integers(0, 11), min_size=10, max_size=40))
    return lambda speakers: speakers[choices.pop() % len(speakers) if choices else 0]


@pytest.mark.parametrize("fault", FAULTS)
@given(order=orders(), committed=committed)
def test_one_failure_is_recovered_from_in_any_order_of_observations(fault, order, committed):
    world = World(committed=committed)
    FAULTS[fault](world)
    world.hear_all(order)
    assert world.recovered
    assert world.hosts == ["h0", "h4", "h2", "h3"]
    assert [fence.host for fence in world.of(Fence)] == ["h1"]
    assert [join.generation for join in world.of(Join)] == [2]


@given(order=orders(), committed=committed, ranks=st.integers(2, 6))
def test_a_dark_circuit_is_restored_in_any_order_of_observations(order, committed, ranks):
    world = World(ranks=ranks, spares=0, committed=committed)
    lost = min(ring(world.hosts, world.ports))
    world.darken(lost)
    world.hear_all(order)
    assert world.recovered
    assert not world.of(Fence)
    assert [set(command.verify) for command in world.of(SetCircuits)] == [{lost}]


@given(order=orders(), spares=st.integers(0, 3), broken=st.integers(0, 3))
def test_dead_spares_are_skipped_until_none_is_left(order, spares, broken):
    world = World(ranks=3, spares=spares)
    for host in [f"h{3 + n}" for n in range(spares)][:broken]:
        world.cut_power(host, line_breaks=False)
    world.kill("h1")
    world.hear_all(order)
    assert world.recovered == (broken < spares)
    assert world.gave_up == (broken >= spares)


def interrupted(order, fault, fail, when, hasty):
    """Return a world in which something else fails once so many reports were heard."""
    world = World(hasty=hasty)
    FAULTS[fault](world)
    for _ in range(when):
        if world.speakers:
            world.hear(order(world.speakers))
    fail(world)
    world.hear_all(order)
    generations = [join.generation for join in world.of(Join)]
    assert generations == list(range(2, 2 + len(generations)))
    assert len(world.of(GiveUp)) == world.gave_up
    return world


@given(
    order=orders(),
    fault=st.sampled_from(sorted(FAULTS)),
    when=st.integers(0, 12),
    hasty=st.booleans(),
)
def test_a_recovery_succeeds_with_the_next_spare_whenever_a_spare_dies(order, fault, when, hasty):
    world = interrupted(order, fault, lambda world: world.cut_power("h4"), when, hasty)
    assert world.recovered or world.gave_up
    assert "h4" not in world.hosts or world.gave_up


@given(
    order=orders(),
    fault=st.sampled_from(sorted(FAULTS)),
    second=st.sampled_from(["h0", "h2", "h3"]),
    power=st.booleans(),
    when=st.integers(0, 16),
    hasty=st.booleans(),
)
def test_two_failures_are_recovered_from_with_two_spares_in_any_order_of_observations(
    order, fault, second, power, when, hasty
):
    def fail(world):
        (world.cut_power if power else world.kill)(second)

    world = interrupted(order, fault, fail, when, hasty)
    # Both are silent, and workers have answers of the others ahead of what these saw go dark.
    if any("is the way to them broken" in end.reason for end in world.of(GiveUp)):
        return
    assert world.recovered, world.of(GiveUp)
    assert {"h1", second}.isdisjoint(world.hosts)


@given(
    order=orders(),
    first=st.sampled_from(sorted(FAULTS)),
    second=st.sampled_from(["h0", "h2", "h3"]),
    power=st.booleans(),
    when=st.integers(0, 16),
)
def test_with_one_spare_two_failures_end_in_a_reason_that_names_both_hosts(
    order, first, second, power, when
):
    world = World(spares=1)
    FAULTS[first](world)
    for _ in range(when):
        if world.speakers:
            world.hear(order(world.speakers))
    is_during = world.policy.is_recovering(world.state)
    (world.cut_power if power else world.kill)(second)
    world.hear_all(order)
    assert world.gave_up
    (ended,) = world.of(GiveUp)
    assert not is_during or {"h1", second} <= {*ended.reason.replace(":", "").split()}


@given(order=orders(), times=st.integers(2, 3))
def test_repeated_symptoms_count_as_one_failure(order, times):
    world = World()
    world.cut_power("h1", line_breaks=False)
    for said in world.sources.values():
        said.extend([*said] * (times - 1))
    world.hear_all(order)
    assert world.recovered
    assert len(world.of(Fence)) == 1
