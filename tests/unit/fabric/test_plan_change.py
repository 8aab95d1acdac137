"""The planner of changes, held against a switch that is nothing but two rules.

The rules: an ingress leads to one egress, and an egress comes from one ingress.
"""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.fabric.change import Change, ForeignCircuit, after, plan_change

PORTS = 6


@st.composite
def crossings(draw, ingress=range(1, PORTS + 1), egress=range(1, PORTS + 1)):
    """Draw cross-connects in which no port is used twice."""
    count = draw(st.integers(0, min(len(ingress), len(egress))))
    ends = draw(st.permutations(list(egress)))
    return dict(zip(draw(st.permutations(list(ingress)))[:count], ends, strict=False))


@st.composite
def situations(draw):
    """Draw a state, what of it is ours, what may be touched, and what is wanted there."""
    ports = frozenset(draw(st.sets(st.integers(1, PORTS), min_size=1)))
    state = draw(crossings())
    touchable = {i: e for i, e in state.items() if {i, e} <= ports}
    ours = {i: touchable[i] for i in draw(st.sets(st.sampled_from(sorted(touchable) or [0]))) if i}
    wanted = draw(crossings(sorted(ports), sorted(ports)))
    return state, wanted, ours, ports


def pairs(crossing):
    return set(crossing.items())


def in_the_way(state, wanted, ours):
    """Return, by brute force, what others made where a wanted cross-connect must go."""
    return {
        (i, e)
        for i, e in pairs(state) - pairs(ours) - pairs(wanted)
        if any(i == wi or e == we for wi, we in wanted.items())
    }


def is_possible(state):
    return len(set(state.values())) == len(state)


@given(situations())
def test_the_result_is_what_was_wanted_and_what_others_made(situation):
    state, wanted, ours, ports = situation
    foreign = in_the_way(state, wanted, ours)
    if foreign:
        with pytest.raises(ForeignCircuit) as refusal:
            plan_change(state, wanted, ours, ports)
        assert pairs(refusal.value.foreign) == foreign
        return
    change = plan_change(state, wanted, ours, ports)
    assert pairs(after(state, change)) == pairs(wanted) | (pairs(state) - pairs(ours))


@given(situations())
def test_nothing_of_others_and_no_other_port_is_ever_touched(situation):
    state, wanted, ours, ports = situation
    try:
        change = plan_change(state, wanted, ours, ports)
    except ForeignCircuit:
        return
    assert pairs(change.removes) <= pairs(ours) & pairs(state)
    assert pairs(change.adds) <= pairs(wanted)
    moved = {*change.removes, *change.removes.values(), *change.adds, *change.adds.values()}
    assert moved <= ports


@given(situations())
def test_removes_before_adds_never_use_a_port_twice_in_any_order(situation):
    state, wanted, ours, ports = situation
    try:
        change = plan_change(state, wanted, ours, ports)
    except ForeignCircuit:
        return
    kept = {i: e for i, e in state.items() if change.removes.get(i) != e}
    for order in permutations(list(change.adds.items())[:4]):
        passing = dict(kept)
        for ingress, egress in order:
            assert ingress not in passing
            passing[ingress] = egress
            assert is_possible(passing)


@given(situations())
def test_what_is_there_already_is_left_alone(situation):
    state, wanted, ours, ports = situation
    try:
        change = plan_change(state, wanted, ours, ports)
    except ForeignCircuit:
        return
    stays = pairs(state) & pairs(wanted)
    assert not stays & (pairs(change.removes) | pairs(change.adds))
    reached = after(state, change)
    assert not plan_change(reached, wanted, wanted, ports)


def test_a_circuit_of_ours_that_is_gone_already_is_not_removed_again():
    change = plan_change({}, {}, {1: 2}, frozenset({1, 2}))
    assert not change
    assert str(change) == "nothing to change"


def test_ours_moved_elsewhere_by_somebody_is_theirs_now():
    with pytest.raises(ForeignCircuit, match="1→3"):
        plan_change({1: 3}, {1: 2}, {1: 2}, frozenset({1, 2, 3}))


@pytest.mark.parametrize("wanted", [{1: 9}, {9: 1}])
def test_a_port_that_may_not_be_touched_is_refused_at_either_end(wanted):
    with pytest.raises(ValueError, match="port 9 is not among"):
        plan_change({}, wanted, {}, frozenset({1, 2}))


def test_two_ingress_ports_cannot_go_to_one_egress():
    with pytest.raises(ValueError, match="two ingress ports"):
        plan_change({}, {1: 3, 2: 3}, {}, frozenset({1, 2, 3}))


def test_a_change_reads_as_a_person_would_write_it():
    assert str(Change({3: 4, 1: 2}, {1: 4})) == "-1→2 -3→4 +1→4"
    assert Change({1: 2}, {})
    assert not Change({}, {})
