"""Routes through a mesh, side by side: what the router claims, held against the tracer."""

import random
from dataclasses import replace

import pytest

from testbed.fabric.matchings import both_directions, round_robin
from testbed.fabric.mesh import Gate, hexagonal, with_ports
from testbed.fabric.mesh_graph import Graph
from testbed.fabric.mesh_light import Tracer
from testbed.fabric.mesh_router import Demand, Router
from testbed.fabric.mesh_routes import Blocked, route, setting_of

MESH = hexagonal(4, 4, bidi=(0, 5, 9, 14, 18, 23, 27, 32))
PORTS = tuple(MESH.ingress)


def demands_of(graph, mesh, matching):
    return {
        number: Demand(graph.number[mesh.ingress[a]], frozenset({graph.number[mesh.egress[b]]}))
        for number, (a, b) in enumerate(matching)
    }


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("matching", round_robin(8))
def test_every_matching_of_reciprocal_ports_is_lit(matching, seed):
    graph = Graph.of(MESH)
    router = Router(graph)
    demands = demands_of(graph, MESH, matching)
    attempt = router.route(demands, 400, seed=seed)
    shorter = router.shorten(demands, attempt.routes)
    joined = [(PORTS[a], PORTS[b]) for a, b in matching]
    tracer = Tracer(MESH.cells)
    losses = []
    for routes in (attempt.routes, shorter.routes):
        setting = setting_of(MESH, graph.gates(routes.values()))
        assert tracer.faults(setting, joined, PORTS) == []
        losses.append(sum(graph.loss_of(lanes) for lanes in routes.values()))
        passed = [len(tracer.ray(one, setting).cells) for one, _ in joined]
        assert sum(passed) == losses[-1]
    assert losses[1] <= losses[0]


def test_separate_ports_carry_both_directions_of_every_pair():
    mesh = hexagonal(4, 4, ingress=(0, 9, 18, 27), egress=(4, 13, 22, 31))
    graph = Graph.of(mesh)
    tracer = Tracer(mesh.cells)
    for matching in map(both_directions, round_robin(4)):
        attempt = Router(graph).route(demands_of(graph, mesh, matching), 400)
        setting = setting_of(mesh, graph.gates(attempt.routes.values()))
        joined = [(mesh.ingress[a], mesh.egress[b]) for a, b in matching]
        assert tracer.faults(setting, joined, [*mesh.ingress, *mesh.egress]) == []


def test_a_port_that_is_not_used_lights_no_other():
    mesh = replace(MESH, setting=route(MESH, {1: 5, 2: 8}).setting)
    assert mesh.circuits(mesh.setting) == {1: 5, 2: 8}
    tracer = Tracer(mesh.cells)
    joined = [(PORTS[0], PORTS[4]), (PORTS[1], PORTS[7])]
    assert tracer.faults(mesh.setting, joined, PORTS) == []


@pytest.mark.parametrize("wanted", [{5: 1}, {1: 1}, {1: 9}, {0: 1}, {1: 2, 2: 3}, {1: 3, 2: 3}])
def test_an_invalid_matching_of_reciprocal_ports_is_refused(wanted):
    with pytest.raises(ValueError, match=r"cannot connect|two circuits|one egress"):
        route(MESH, wanted)


def test_the_least_loss_of_a_route_equals_that_of_a_shortest_path():
    """Distances by search from both ends agree, and a single route has that loss."""
    losses = tuple((0.1 + 0.01 * (n % 7), 0.2 + 0.01 * (n % 5)) for n in range(len(MESH.cells)))
    graph = Graph.of(replace(MESH, losses=losses))
    router = Router(graph)
    for a in range(8):
        for b in range(8):
            if a == b:
                continue
            ends = graph.number[PORTS[a]], graph.number[PORTS[b]]
            there, back = (Demand(x, frozenset({y})) for x, y in (ends, ends[::-1]))
            assert router.distance(there) == pytest.approx(router.distance(back))
            lanes = router.route({0: there}, 5).routes[0]
            assert graph.loss_of(lanes) == pytest.approx(router.distance(there))


def test_stuck_cells_keep_their_state_and_routes_avoid_them():
    chance = random.Random(5)
    found = 0
    for _ in range(20):
        cells = chance.sample(range(len(MESH.cells)), 3)
        stuck = {cell: chance.choice(list(Gate)) for cell in cells}
        mesh = replace(MESH, stuck=stuck)
        try:
            setting = route(mesh, {1: 5, 2: 8}).setting
        except Blocked:
            continue
        found += 1
        assert all(setting[cell] is gate for cell, gate in stuck.items())
        assert mesh.circuits(setting) == {1: 5, 2: 8}
    assert found > 10


def test_routes_broken_by_a_stuck_cell_count_as_absent():
    before = route(MESH, {1: 5})
    step = before.paths[1].steps[0]
    other = Gate.CROSS if step.gate is Gate.BAR else Gate.BAR
    mesh = replace(MESH, setting=before.setting, stuck={step.cell: other})
    assert mesh.circuits(route(mesh, {1: 5}).setting) == {1: 5}


def test_routing_with_too_few_searches_gives_no_routes():
    graph = Graph.of(MESH)
    attempt = Router(graph).route(demands_of(graph, MESH, round_robin(8)[0]), 3)
    assert attempt.routes is None
    assert attempt.searches == 3


def test_fixed_routes_are_avoided_and_present_ones_kept():
    graph = Graph.of(MESH)
    router = Router(graph)
    demands = demands_of(graph, MESH, ((0, 4), (1, 5), (2, 6)))
    first = router.route({0: demands[0]}, 10).routes[0]
    beside = router.route({1: demands[1]}, 10, fixed=[first])
    assert not {lane >> 1 for lane in first} & {lane >> 1 for lane in beside.routes[1]}
    alone = {0: demands[0], 1: demands[1]}
    assert router.route(alone, 10, present={0: first, **beside.routes}).searches == 0


def test_a_mesh_that_stands_otherwise_has_the_graph_and_the_distances_of_before():
    mesh = with_ports(MESH, [0, 4], [8, 12])
    graph = Graph.of(mesh)
    goals = frozenset({graph.number[mesh.egress[0]]})
    before = graph.distances(goals)
    moved = replace(mesh, setting=(Gate.CROSS,) * len(mesh.cells))
    assert Graph.of(moved) is graph
    assert Graph.of(moved).distances(goals) is before
    stuck = Graph.of(replace(mesh, stuck={0: Gate.BAR}))
    assert stuck is not graph
    assert len(stuck.arms) == len(graph.arms) - 2


def test_few_graphs_of_the_same_cells_are_kept():
    mesh = hexagonal(2, 2)
    for cell in range(len(mesh.cells)):
        Graph.of(replace(mesh, stuck={cell: Gate.BAR}))
    assert len(mesh.cells.graphs) == 4
