"""The tracer of light, and what the model of a mesh says of the same settings."""

import random

import pytest

from testbed.fabric.mesh import Gate, hexagonal, of_sides, with_ports
from testbed.fabric.mesh_light import Tracer

SMALL = hexagonal(3, 3)


def random_setting(mesh, chance):
    return tuple(chance.choice(list(Gate)) for _ in mesh.cells)


def involution(mesh, times):
    """Trace every port of a mesh in random settings, there and back."""
    tracer, chance = Tracer(mesh.cells), random.Random(1)
    for _ in range(times):
        setting = random_setting(mesh, chance)
        rays = {joint: tracer.ray(joint, setting) for joint in mesh.rim}
        assert sorted(ray.end for ray in rays.values()) == sorted(mesh.rim)
        for joint, ray in rays.items():
            assert ray.end != joint
            assert rays[ray.end].end == joint
            assert rays[ray.end].cells == ray.cells[::-1]


def test_light_paths_are_reciprocal():
    involution(SMALL, 20)


@pytest.mark.soak
@pytest.mark.parametrize("edge", [3, 4, 5, 6, 9, 10])
def test_a_thousand_settings_are_matchings_of_all_ports(edge):
    involution(hexagonal(edge, edge), 1000)


def test_the_tracer_and_the_model_agree():
    tracer, chance = Tracer(SMALL.cells), random.Random(2)
    for _ in range(20):
        setting = random_setting(SMALL, chance)
        for port, joint in SMALL.ports.items():
            path, ray = SMALL.path(port, setting), tracer.ray(joint, setting)
            assert (path.end, tuple(step.cell for step in path.steps)) == (ray.end, ray.cells)


def test_light_through_a_cell_of_unknown_state_may_leave_at_any_of_its_exits():
    tracer, chance = Tracer(SMALL.cells), random.Random(3)
    setting = random_setting(SMALL, chance)
    known = dict(enumerate(setting))
    for joint in SMALL.rim:
        assert tracer.reach(joint, known) == {tracer.ray(joint, setting).end}
        cell = tracer.ray(joint, setting).cells[0]
        partial = {number: gate for number, gate in known.items() if number != cell}
        both = {
            tracer.ray(joint, (*setting[:cell], gate, *setting[cell + 1 :])).end for gate in Gate
        }
        assert tracer.reach(joint, partial) >= both
    assert tracer.reach(SMALL.rim[0], {}) <= tracer.external


def test_a_wrong_setting_is_reported_by_port():
    mesh = hexagonal(1, 1, bidi=(0, 1, 6))
    tracer = Tracer(mesh.cells)
    setting = tuple(Gate.BAR for _ in mesh.cells)
    ends = {joint: tracer.ray(joint, setting).end for joint in mesh.ingress}
    one = mesh.ingress[0]
    assert tracer.faults(setting, [(one, ends[one])], [one]) == []
    (other,) = [joint for joint in mesh.ingress[1:] if joint != ends[one]][:1]
    told = tracer.faults(setting, [(one, other)], mesh.ingress)
    assert any("not at corner" in fault for fault in told)
    assert any("which is used" in fault for fault in tracer.faults(setting, [], [one, ends[one]]))


def test_a_mesh_read_from_a_map_equals_the_mesh_with_renumbered_cells():
    sides = {}
    for number, cell in enumerate(reversed(SMALL.cells)):
        joint = cell.joints[0]
        sides[100 + 2 * number] = tuple(joint)
    mesh = of_sides(sides)
    assert mesh.numbers == tuple(sorted(sides))
    assert mesh.rim == SMALL.rim
    assert {frozenset(cell.joints) for cell in mesh.cells} == {
        frozenset(cell.joints) for cell in SMALL.cells
    }
    chance = random.Random(4)
    setting = random_setting(SMALL, chance)
    mapped = with_ports(mesh, bidi=(0, 5))
    other = Tracer(mapped.cells).ray(mapped.ingress[0], setting[::-1])
    assert other.end == Tracer(SMALL.cells).ray(mapped.ingress[0], setting).end


@pytest.mark.parametrize(
    ("sides", "complaint"),
    [
        ({1: (0, 0, 6)}, "cell 1: a hexagon has the corners 0 to 5"),
        ({1: (0, 0, 0), 2: (1, 0, 3)}, "cells 1 and 2 are on the same side"),
    ],
)
def test_a_map_that_no_mesh_can_have_is_refused(sides, complaint):
    with pytest.raises(ValueError, match=complaint):
        of_sides(sides)


@pytest.mark.parametrize(
    ("ports", "complaint"),
    [
        ({"bidi": (1,), "ingress": (2,), "egress": (3,)}, "all reciprocal or none"),
        ({"bidi": (1, 1)}, "each named once"),
        ({"bidi": (28,)}, "0 to 27"),
        ({}, "ingress and egress ports"),
    ],
)
def test_ports_that_a_mesh_cannot_use_are_refused(ports, complaint):
    with pytest.raises(ValueError, match=complaint):
        with_ports(SMALL, **ports)


def test_reciprocal_ports_are_counted_once():
    mesh = hexagonal(3, 3, bidi=(0, 7, 14, 21))
    assert mesh.reciprocal
    assert (mesh.kind, SMALL.kind) == ("bidi", "tx-rx")
    assert list(mesh.ports) == [1, 2, 3, 4]
