"""The planner of changes, held against a switch that is nothing but two rules.

The rules: an ingress leads to one egress, and an egress comes from one ingress. What the planner
says is carried out cross-connect by cross-connect, in any order, by a checker that knows nothing of
it; what it refuses must have a reason that the checker finds by brute force.
"""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.fabric.change import Change, Difference, ForeignCircuit, after, plan_change
from testbed.fabric.device import Capabilities
from testbed.fabric.mesh import hexagonal
from testbed.fabric.mesh_routes import route

SIDE = 5
INGRESS = tuple(range(1, SIDE + 1))
EGRESS = tuple(range(SIDE + 1, 2 * SIDE + 1))
CAN = Capabilities(frozenset(INGRESS), frozenset(EGRESS), 0.01, 0.02)
MANY = 10_000


@dataclass(frozen=True)
class Situation:
    """A switch, what of it is ours, what may be touched, and what is wanted there."""

    state: dict
    wanted: dict
    ours: dict
    ports: frozenset
    can: Capabilities = CAN

    def plan(self):
        return plan_change(self.state, self.wanted, self.ours, self.ports, self.can)


@st.composite
def crossings(draw, ingress=INGRESS, egress=EGRESS, least=0):
    """Draw cross-connects in which no port is used twice."""
    count = draw(st.integers(least, min(len(ingress), len(egress))))
    ends = draw(st.permutations(list(egress)))
    return dict(zip(draw(st.permutations(list(ingress)))[:count], ends, strict=False))


@st.composite
def situations(draw):
    """Draw what a switch shows, ours, stale and foreign, and what is wanted, possible or not."""
    ports = frozenset(draw(st.sets(st.sampled_from(INGRESS + EGRESS), min_size=2)))
    state = draw(crossings())
    touchable = {i: e for i, e in state.items() if {i, e} <= ports}
    kept = draw(st.sets(st.sampled_from(sorted(touchable) or [0])))
    ours = {i: e for i, e in touchable.items() if i in kept}
    stale = draw(crossings(sorted(ports & set(INGRESS)), sorted(ports & set(EGRESS))))
    ours = {**{i: e for i, e in stale.items() if state.get(i) != e}, **ours}
    reach = ports if draw(st.integers(0, 9)) else CAN.ingress | CAN.egress
    wanted = draw(crossings(sorted(reach & set(INGRESS)), sorted(reach & set(EGRESS))))
    return Situation(state, wanted, ours, ports)


@st.composite
def standing(draw):
    """Draw a switch that is never dark, in one of its positions."""
    size = draw(st.integers(1, 3))
    positions = draw(
        st.lists(crossings(INGRESS[:3], EGRESS[:3], least=size), min_size=2, max_size=6)
    )
    positions = tuple({tuple(sorted(p.items())): p for p in positions}.values())
    can = Capabilities(CAN.ingress, CAN.egress, 0.01, 0.02, positions=positions)
    state = draw(st.sampled_from(positions))
    ports = frozenset(draw(st.sets(st.sampled_from(INGRESS[:3] + EGRESS[:3]), min_size=2)))
    mine = draw(st.sets(st.sampled_from(sorted(state) or [0])))
    ours = {i: e for i, e in state.items() if i in mine or {i, e} <= ports}
    there = draw(st.sampled_from(positions))
    wanted = {i: e for i, e in there.items() if {i, e} <= ports and draw(st.booleans())}
    return Situation(state, wanted, ours, ports, can)


def pairs(crossing):
    return set(crossing.items())


def in_the_way(given):
    """Return, by brute force, what others made where a wanted cross-connect must go."""
    return {
        (i, e)
        for i, e in pairs(given.state) - pairs(given.ours) - pairs(given.wanted)
        if any(i == wi or e == we for wi, we in given.wanted.items())
    }


def carried_out(state, change, shuffled):
    """Do a change one cross-connect at a time: all removes, then all adds, each in any order."""
    now = dict(state)
    for ingress, egress in shuffled(sorted(change.removes.items())):
        assert now.pop(ingress) == egress, "a remove named what is not there"
    for ingress, egress in shuffled(sorted(change.adds.items())):
        assert ingress not in now, "an add needed a port that was still in use"
        assert egress not in now.values(), "an add needed a port that was still in use"
        now[ingress] = egress
    return now


def keeps_its_word(given, shuffled):
    """Hold one plan of a switch whose cross-connects come and go against the checker."""
    reachable = {port for pair in given.wanted.items() for port in pair} <= given.ports
    end = pairs(given.wanted) | (pairs(given.state) - pairs(given.ours))
    try:
        change = given.plan()
    except ForeignCircuit as refusal:
        assert pairs(refusal.foreign) == in_the_way(given) != set()
        return
    except ValueError:
        assert not reachable
        return
    assert reachable
    assert not in_the_way(given)
    assert pairs(carried_out(given.state, change, shuffled)) == end
    assert pairs(after(given.state, change)) == end
    assert pairs(change.removes) <= pairs(given.ours), "something of others was removed"
    assert change.ports <= given.ports
    assert not (pairs(change.removes) | pairs(change.adds)) & (
        pairs(given.state) & pairs(given.wanted)
    ), "what was there already was touched"
    assert not change.disturbs


def stands_somewhere(given, shuffled):
    """Hold one plan of a switch that is never dark against a search of all its positions."""

    def moved(position):
        return pairs(position) ^ pairs(given.state)

    def is_allowed(position):
        ended = pairs(given.state) - pairs(position)
        touched = {port for pair in moved(position) for port in pair}
        return touched <= given.ports and ended <= pairs(given.ours)

    holding = [p for p in given.can.positions if pairs(given.wanted) <= pairs(p)]
    allowed = [p for p in holding if is_allowed(p)]
    try:
        change = given.plan()
    except ForeignCircuit as refusal:
        assert holding
        assert not allowed
        assert pairs(refusal.foreign)
        return
    end = carried_out(given.state, change, shuffled)
    assert end in allowed
    assert len(moved(end)) == min(len(moved(p)) for p in allowed)
    assert change.disturbs == moved(end) - pairs(given.wanted) - pairs(given.ours)


shuffles = st.randoms(use_true_random=False).map(
    lambda chance: lambda rows: chance.sample(rows, len(rows))
)


@given(situations(), shuffles)
def test_any_plan_gives_the_wanted_circuits_or_a_reasoned_refusal(situation, shuffled):
    keeps_its_word(situation, shuffled)


@pytest.mark.soak
@settings(max_examples=MANY)
@given(situations(), shuffles)
def test_ten_thousand_plans_give_the_wanted_circuits_or_a_refusal(situation, shuffled):
    keeps_its_word(situation, shuffled)


@given(standing(), shuffles)
def test_a_change_of_a_positional_switch_moves_the_fewest_circuits(situation, shuffled):
    stands_somewhere(situation, shuffled)


@pytest.mark.soak
@settings(max_examples=MANY)
@given(standing(), shuffles)
def test_ten_thousand_changes_of_positional_switches_move_the_fewest_circuits(situation, shuffled):
    stands_somewhere(situation, shuffled)


@given(situations())
def test_planning_from_the_wanted_state_gives_an_empty_change(situation):
    try:
        reached = after(situation.state, situation.plan())
    except ValueError:
        return
    wanted = situation.wanted
    assert not plan_change(reached, wanted, wanted, situation.ports, CAN)


def plan(state, wanted, ours, ports):
    return plan_change(state, wanted, ours, frozenset(ports), CAN)


def test_a_circuit_of_the_run_that_no_longer_exists_is_not_removed_again():
    change = plan({}, {}, {1: 6}, {1, 6})
    assert not change
    assert str(change) == "nothing to change"


def test_a_circuit_moved_by_another_client_counts_as_foreign():
    with pytest.raises(ForeignCircuit, match="1→7"):
        plan({1: 7}, {1: 6}, {1: 6}, {1, 6, 7})


@pytest.mark.parametrize("wanted", [{1: 9}, {2: 6}])
def test_a_circuit_with_an_end_outside_the_permitted_ports_is_refused(wanted):
    with pytest.raises(ValueError, match=r"port [29] is not among"):
        plan({}, wanted, {}, {1, 6})


def test_a_cross_connect_that_is_not_from_an_ingress_to_an_egress_is_refused():
    with pytest.raises(ValueError, match="cannot connect 6→1"):
        plan({}, {6: 1}, {}, {1, 6})


def test_connecting_two_ingress_ports_to_one_egress_port_is_refused():
    with pytest.raises(ValueError, match="two ingress ports"):
        plan({}, {1: 6, 2: 6}, {}, {1, 2, 6})


BAR, CROSSED = {1: 3, 2: 4}, {1: 4, 2: 3}
TWO_BY_TWO = Capabilities(
    frozenset({1, 2}), frozenset({3, 4}), 0.001, 0.002, positions=(BAR, CROSSED)
)


def test_a_change_of_a_two_by_two_switch_includes_the_second_circuit_of_its_state():
    change = plan_change(BAR, {1: 4}, BAR, frozenset({1, 2, 3, 4}), TWO_BY_TWO)
    assert after(BAR, change) == CROSSED
    assert change.disturbs == {(2, 3)}
    assert str(change) == "-1→3 -2→4 +1→4 +2→3 ~2→3"


def test_a_foreign_second_circuit_is_named_and_kept():
    with pytest.raises(ForeignCircuit, match="2→4"):
        plan_change(BAR, {1: 4}, {1: 3}, frozenset({1, 3, 4}), TWO_BY_TWO)


def test_circuits_that_no_position_of_the_switch_provides_are_refused():
    only = Capabilities(frozenset({1, 2}), frozenset({3, 4}), 0.001, 0.002, positions=(BAR,))
    with pytest.raises(ValueError, match="no position of this switch holds 1→4 together"):
        plan_change(BAR, {1: 4}, BAR, frozenset({1, 2, 3, 4}), only)


def mesh_that_holds(circuits):
    """Return a crowded mesh of four ports a side, set to hold some circuits, and what it can do."""
    bare = hexagonal(3, 3, ingress=(0, 6, 12, 18), egress=(3, 9, 15, 21))
    mesh = replace(bare, setting=route(bare, circuits).setting)
    return mesh, Capabilities(frozenset(range(1, 5)), frozenset(range(5, 9)), 1.0, 2.0, mesh=mesh)


HELD = {2: 7, 3: 5, 4: 8}
ALL_OF_IT = frozenset(range(1, 9))


def test_a_mesh_names_every_circuit_whose_path_changes():
    mesh, can = mesh_that_holds(HELD)
    change = plan_change(HELD, HELD | {1: 6}, HELD, ALL_OF_IT, can)
    assert (change.removes, change.adds) == ({}, {1: 6})
    setting = route(mesh, HELD | {1: 6}).setting
    rerouted = {i for i in HELD if mesh.path(i, setting) != mesh.path(i, mesh.setting)}
    assert rerouted
    assert change.disturbs == {(i, HELD[i]) for i in rerouted}


def test_a_mesh_does_not_reroute_foreign_circuits():
    _, can = mesh_that_holds(HELD)
    with pytest.raises(ForeignCircuit, match="3→5"):
        plan_change(HELD, {1: 6}, {}, ALL_OF_IT, can)
    assert plan_change(HELD, {}, {4: 8}, ALL_OF_IT, can) == Change({4: 8}, {})


@pytest.mark.parametrize("first", [0, 100])
def test_the_cells_of_foreign_circuits_that_would_move_are_named_as_the_device_does(first):
    mesh, can = mesh_that_holds(HELD)
    mesh = replace(mesh, numbers=tuple(first + cell for cell in range(len(mesh.cells))))
    with pytest.raises(ForeignCircuit) as refusal:
        plan_change(HELD, HELD | {1: 6}, {}, ALL_OF_IT, replace(can, mesh=mesh))
    setting = route(mesh, HELD | {1: 6}).setting
    steps = [step for i in refusal.value.foreign for step in mesh.path(i, mesh.setting).steps]
    moved = {first + step.cell for step in steps if setting[step.cell] is not step.gate}
    assert moved and refusal.value.cells == tuple(sorted(moved))


def test_an_empty_change_of_a_mesh_keeps_the_state_of_its_cells():
    _, can = mesh_that_holds(HELD)
    assert not plan_change(HELD, HELD, HELD, ALL_OF_IT, can)


def test_a_planned_change_is_printed_as_readable_text():
    assert str(Change({3: 4, 1: 2}, {1: 4})) == "-1→2 -3→4 +1→4"
    assert Change({1: 2}, {})
    assert not Change({}, {})


def test_a_difference_of_states_is_printed_as_readable_text():
    assert str(Difference.between({1: 6, 2: 7}, {1: 7, 2: 7})) == "no 1→6, 1→7 instead"
    assert not Difference.between({1: 6}, {1: 6})
