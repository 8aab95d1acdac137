"""A photonic mesh on paper: its geometry, and light followed through it by separate code."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.fabric.mesh import Gate, Joint, hexagonal
from testbed.fabric.mesh_routes import Blocked, route

SMALL = hexagonal(4, 4)
INPUTS = len(SMALL.ingress)
EGRESS = range(INPUTS + 1, 2 * INPUTS + 1)


@st.composite
def matchings(draw):
    """Return any matching of the small mesh, full, partial or empty."""
    pairs = zip(range(1, INPUTS + 1), draw(st.permutations(EGRESS)), strict=True)
    kept = draw(st.sets(st.integers(1, INPUTS)))
    return {i: e for i, e in pairs if i in kept}


@st.composite
def settings(draw):
    """Return any setting of the small mesh."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    return tuple(chance.choice(list(Gate)) for _ in SMALL.cells)


def leaves_at(mesh, setting, joint):
    """Follow light from a rim joint to where it leaves, with nothing but the rules of a cell."""
    came_from = None
    for _ in range(2 * len(mesh.cells) + 1):
        inside = [n for n, c in enumerate(mesh.cells) if joint in c.joints and n != came_from]
        if not inside:
            return joint
        (came_from,) = inside
        a, a1, b, b1 = mesh.cells[came_from].joints
        bar = {a: a1, a1: a, b: b1, b1: b}
        cross = {a: b, b: a, a1: b1, b1: a1}
        joint = (bar if setting[came_from] is Gate.BAR else cross)[joint]
    raise AssertionError("light runs in a circle")


def traced(mesh, setting):
    """Return the circuits that light makes, ingress to egress."""
    names = dict(zip(mesh.egress, range(len(mesh.ingress) + 1, 1000), strict=False))
    ends = {i: leaves_at(mesh, setting, j) for i, j in enumerate(mesh.ingress, start=1)}
    return {i: names[end] for i, end in ends.items() if end in names}


@pytest.mark.parametrize(
    ("edge", "cells", "ports"),
    [(3, 38, 28), (4, 63, 36), (5, 94, 44), (6, 131, 52), (9, 278, 76), (10, 339, 84)],
)
def test_cells_and_ports_are_as_many_as_in_the_published_mesh(edge, cells, ports):
    mesh = hexagonal(edge, edge)
    assert (len(mesh.cells), len(mesh.rim)) == (cells, ports)


def test_a_cell_joins_the_corners_of_two_hexagons_crosswise():
    corners = {}
    for cell in SMALL.cells:
        a, a1, b, b1 = cell.joints
        assert a[:2] == a1[:2] != b[:2] == b1[:2]
        corners.setdefault(frozenset({a[:2], b[:2]}), cell)
    assert len(corners) == len(SMALL.cells)
    first = SMALL.cells[0]
    assert first.exit(first.joints[0], Gate.BAR) == first.joints[1]
    assert first.exit(first.joints[0], Gate.CROSS) == first.joints[2]


@given(settings())
def test_any_setting_is_a_matching_of_all_external_ports(setting):
    ends = {joint: leaves_at(SMALL, setting, joint) for joint in SMALL.rim}
    assert sorted(ends.values()) == sorted(SMALL.rim)
    assert all(ends[end] == joint != end for joint, end in ends.items())
    assert SMALL.circuits(setting) == traced(SMALL, setting)


@given(settings(), matchings())
def test_traced_light_makes_exactly_the_routed_circuits(setting, wanted):
    mesh = replace(SMALL, setting=setting)
    routing = route(mesh, wanted)
    assert traced(SMALL, routing.setting) == wanted


@given(matchings(), matchings())
def test_a_kept_circuit_stays_on_its_path_or_is_named_as_disturbed(before, after):
    mesh = replace(SMALL, setting=route(SMALL, before).setting)
    routing = route(mesh, after)
    kept = {i: e for i, e in after.items() if before.get(i) == e}
    moved = {
        i: e for i, e in kept.items() if mesh.path(i, mesh.setting) != mesh.path(i, routing.setting)
    }
    assert routing.disturbed == moved


def test_a_blocking_circuit_is_rerouted_and_named():
    """From random settings circuits wind so much that some block the others."""
    disturbed = 0
    for seed in range(30):
        chance = random.Random(seed)
        setting = tuple(chance.choice(list(Gate)) for _ in SMALL.cells)
        mesh = replace(SMALL, setting=setting)
        present = mesh.circuits(setting)
        free = [i for i in range(1, INPUTS + 1) if i not in present]
        dark = [e for e in EGRESS if e not in present.values()]
        wanted = present | dict(zip(free, dark, strict=True))
        routing = route(mesh, wanted)
        assert traced(SMALL, routing.setting) == wanted
        assert routing.disturbed.items() <= present.items()
        for i in present.keys() - routing.disturbed.keys():
            assert mesh.path(i, setting) == mesh.path(i, routing.setting)
        disturbed += bool(routing.disturbed)
    assert disturbed


def test_with_no_circuits_all_light_goes_to_unused_ports():
    routing = route(SMALL, {})
    ends = {leaves_at(SMALL, routing.setting, joint) for joint in SMALL.ingress}
    assert not ends & {*SMALL.ingress, *SMALL.egress}


def test_the_same_circuits_get_the_same_routes():
    wanted = dict(zip(range(1, INPUTS + 1), EGRESS, strict=True))
    assert route(SMALL, wanted) == route(hexagonal(4, 4), wanted)


def test_existing_circuits_change_no_cell():
    wanted = dict(zip(range(1, INPUTS + 1), reversed(EGRESS), strict=True))
    mesh = replace(SMALL, setting=route(SMALL, wanted).setting)
    again = route(mesh, wanted)
    assert again.setting == mesh.setting
    assert not again.disturbed


def test_a_single_circuit_takes_a_shortest_path():
    """One hexagon, neighbouring ports: one cell in cross leads from the one to the other."""
    mesh = hexagonal(1, 1, ingress=[0], egress=[1])
    assert len(route(mesh, {1: 2}).paths[1].steps) == 1


def test_too_many_circuits_for_the_cells_are_refused():
    mesh = hexagonal(1, 1, ingress=[0, 2, 4], egress=[6, 8, 10])
    crossed = {1: 4, 2: 6, 3: 5}
    with pytest.raises(Blocked, match="1→4, 2→6, 3→5"):
        route(mesh, crossed)


@pytest.mark.parametrize("wanted", [{1: 2}, {5: 6}, {1: 9}, {0: 5}])
def test_only_paths_from_ingress_to_egress_are_routed(wanted):
    with pytest.raises(ValueError, match="cannot connect"):
        route(SMALL, wanted)


def test_two_ingress_ports_never_share_an_egress_port():
    with pytest.raises(ValueError, match="to one egress port"):
        route(SMALL, {1: 5, 2: 5})


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((0, 3), "no port"),
        ((3, 3, [1], [1]), "each named once"),
        ((3, 3, [1]), "each named once"),
        ((3, 3, [0], [28]), "0 to 27"),
        ((3, 3, [-1], [2]), "0 to 27"),
    ],
)
def test_a_mesh_without_usable_ports_is_refused(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        hexagonal(*arguments)


def test_the_default_ports_use_no_outer_hexagon_twice():
    for width, height in ((3, 3), (6, 6), (7, 3)):
        mesh = hexagonal(width, height)
        used = [Joint(*joint)[:2] for joint in mesh.ingress + mesh.egress]
        assert len(set(used)) == len(used) == 2 * min(width, height)
