"""Changes of a switch with one side, and limits of light that goes both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.fabric.change import ForeignCircuit, after, plan_change
from testbed.fabric.device import Capabilities
from testbed.fabric.light import LightLimits, LightRefused
from testbed.fabric.reading import DARK, measured

PORTS = frozenset(range(1, 11))
ONE_SIDE = Capabilities(PORTS, PORTS, 0.01, 0.02)
TWO_SIDES = Capabilities(frozenset(range(1, 6)), frozenset(range(6, 11)), 0.01, 0.02)


@st.composite
def states(draw):
    """Draw cross-connects of a switch with one side, the lower port of each first."""
    order = draw(st.permutations(sorted(PORTS)))
    pairs = list(zip(order[::2], order[1::2], strict=True))[: draw(st.integers(0, 5))]
    return {min(pair): max(pair) for pair in pairs}


def ends(state):
    return {*state, *state.values()}


@given(states(), states(), st.data())
def test_a_change_on_one_side_uses_no_port_twice_and_moves_nothing_of_others(state, wanted, data):
    mine = data.draw(st.sets(st.sampled_from(sorted(state.items()))) if state else st.just(set()))
    theirs = dict(state.items() - mine)
    try:
        change = plan_change(state, wanted, dict(mine), PORTS, ONE_SIDE)
    except ForeignCircuit:
        assert ends(dict(theirs.items() - wanted.items())) & ends(wanted)
        return
    then = after(state, change)
    assert len(ends(then)) == 2 * len(then)
    assert then == theirs | wanted


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [({2: 5, 5: 7}, "port 5 is to be used in two"), ({7: 4}, "the lower port must come first")],
)
def test_circuits_impossible_on_a_switch_with_one_side_are_refused(wanted, reason):
    with pytest.raises(ValueError, match=reason):
        plan_change({}, wanted, {}, PORTS, ONE_SIDE)


def test_two_inputs_of_a_switch_with_two_sides_are_not_joined():
    with pytest.raises(ValueError, match="cannot connect 1→3: ingress ports are 1-5, egress ports"):
        plan_change({}, {1: 3}, {}, PORTS, TWO_SIDES)


def test_a_receiver_behind_an_input_gets_light_from_the_output():
    """Of what enters at an output nobody measures anything, so no limit there passes."""
    limits = LightLimits({1: 0.0}, launch={1: -9.0, 6: -9.0})
    readings = {1: measured(-9.0)}
    assert limits.sources({}, {1: 6}, TWO_SIDES) == {6}
    words = "port 1 withstands 0 dBm and what enters at port 6 is not measured"
    with pytest.raises(LightRefused, match=words):
        limits.check({}, {1: 6}, readings, TWO_SIDES)
    LightLimits({6: 0.0}).check({}, {1: 6}, readings, TWO_SIDES)


def test_a_receiver_behind_an_input_keeps_its_light():
    limits = LightLimits(keep_alive=frozenset({1}))
    with pytest.raises(LightRefused, match="port 1 is listed in keep_alive and would go d"):
        limits.check({1: 6}, {}, {1: DARK}, TWO_SIDES)
    limits.check({1: 6}, {1: 7}, {1: DARK}, TWO_SIDES)
