"""Where a switch is brought after a run, whatever others made of it meanwhile."""

from hypothesis import given
from hypothesis import strategies as st

from testbed.fabric.light import NO_LIMITS, LightLimits
from testbed.fabric.safe import reachable

INGRESS, EGRESS = range(1, 7), range(7, 13)
PORTS = frozenset({1, 2, 3, 4, 7, 8, 9, 10})
"""Those of the run."""


@st.composite
def crossings(draw, within=frozenset({*INGRESS, *EGRESS})):
    """Draw cross-connects of distinct ports."""
    ingress = draw(st.permutations([port for port in INGRESS if port in within]))
    egress = draw(st.permutations([port for port in EGRESS if port in within]))
    count = draw(st.integers(0, min(len(ingress), len(egress))))
    return dict(zip(ingress[:count], egress[:count], strict=True))


@st.composite
def aftermaths(draw):
    """Draw what was found, what is there, what of that is ours, and what the lab says of light."""
    present = draw(crossings())
    ours = {i: e for i, e in present.items() if {i, e} <= PORTS and draw(st.booleans())}
    start = draw(crossings(PORTS))
    limits = LightLimits({}, draw(st.frozensets(st.sampled_from(EGRESS))), draw(crossings()))
    return start, present, ours, limits


def ends(state):
    return [*state, *state.values()]


@given(aftermaths())
def test_the_safe_state_is_compatible_with_foreign_circuits(drawn):
    start, present, ours, limits = drawn
    goal = reachable(start, present, ours, PORTS, limits)
    together = [*ends(goal.target), *ends(goal.others)]
    assert len(together) == len(set(together))
    assert set(ends(goal.target)) <= PORTS


@given(aftermaths())
def test_original_circuits_are_restored_unless_foreign_ones_conflict(drawn):
    start, present, ours, limits = drawn
    goal = reachable(start, present, ours, PORTS, limits)
    assert {**goal.missing, **goal.target} == {**goal.target, **start, **goal.instead}
    for ingress, egress in start.items():
        is_blocked = bool({ingress, egress} & set(ends(goal.others)))
        assert (goal.target.get(ingress) == egress) is not is_blocked


@given(aftermaths())
def test_circuits_made_neither_by_the_run_nor_before_it_count_as_foreign(drawn):
    start, present, ours, limits = drawn
    goal = reachable(start, present, ours, PORTS, limits)
    for ingress, egress in present.items():
        theirs = (ingress, egress) not in {*ours.items(), *start.items()}
        touches = bool({ingress, egress} & PORTS)
        assert (goal.others.get(ingress) == egress) is (theirs and touches)


@given(aftermaths())
def test_without_conflicts_the_safe_state_is_the_original_state(drawn):
    start, present, ours, limits = drawn
    goal = reachable(start, present, ours, PORTS, limits)
    if not goal.missing:
        assert goal.target == start and not goal.instead


@given(aftermaths())
def test_only_idle_circuits_of_the_lab_file_replace_circuits_that_cannot_be_restored(drawn):
    start, present, ours, limits = drawn
    goal = reachable(start, present, ours, PORTS, limits)
    for ingress, egress in goal.instead.items():
        rests = limits.safe.get(ingress) == egress and {ingress, egress} & set(ends(goal.missing))
        is_kept = egress in limits.keep_alive and ours.get(ingress) == egress
        assert rests or is_kept


def test_a_port_without_its_partner_gets_its_idle_circuit_and_a_keep_alive_port_keeps_its_own():
    start, taken = {1: 7, 2: 8}, {1: 12, 5: 8}
    resting = LightLimits({}, frozenset(), {2: 9})
    assert reachable(start, taken, {}, PORTS, resting).target == {2: 9}
    assert reachable(start, taken, {}, PORTS, NO_LIMITS).target == {}
    ours = {3: 7}
    alight = LightLimits({}, frozenset({7}))
    assert reachable(start, taken | ours, ours, PORTS, alight).target == ours
