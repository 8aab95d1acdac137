"""What the integer program proves, held against brute force, prices, the router and the tracer."""

import random
from dataclasses import replace
from itertools import product

import pytest

from testbed.fabric.matchings import round_robin
from testbed.fabric.mesh import Gate, hexagonal
from testbed.fabric.mesh_exact import solve, trivial_bound
from testbed.fabric.mesh_graph import Graph
from testbed.fabric.mesh_light import Tracer
from testbed.fabric.mesh_ports import choose_ports, demands
from testbed.fabric.mesh_router import Demand, Router
from testbed.fabric.mesh_routes import setting_of
from tests.unit.fabric.joint_prices import UNIT, good_prices, priced_bound

TINY = hexagonal(1, 1, bidi=(0, 3, 6, 9))


def by_brute_force(mesh, matching, objective):
    """Return the least loss over all settings of the cells; None where none joins the pairs."""
    tracer = Tracer(mesh.cells)
    best = None
    for setting in product(
        *([mesh.stuck[cell]] if cell in mesh.stuck else Gate for cell in range(6))
    ):
        rays = [tracer.ray(mesh.ingress[a], setting) for a, _ in matching]
        if all(ray.end == mesh.ingress[b] for ray, (_, b) in zip(rays, matching, strict=True)):
            losses = [
                sum(mesh.losses[cell][setting[cell] is Gate.CROSS] for cell in ray.cells)
                for ray in rays
            ]
            loss = sum(losses) if objective == "total" else max(losses)
            best = loss if best is None else min(best, loss)
    return best


@pytest.mark.parametrize("objective", ["total", "worst"])
@pytest.mark.parametrize("matching", [*round_robin(4), ((0, 1),), ((1, 3),)])
@pytest.mark.parametrize("stuck", [{}, {0: Gate.BAR, 3: Gate.CROSS}])
def test_the_solution_for_one_hexagon_equals_brute_force(matching, objective, stuck):
    losses = tuple((1.0 + 0.1 * cell, 2.0 - 0.1 * cell) for cell in range(6))
    mesh = replace(TINY, losses=losses, stuck=stuck)
    graph = Graph.of(mesh)
    proof = solve(graph, demands(mesh, graph, matching), objective=objective)
    least = by_brute_force(mesh, matching, objective)
    if least is None:
        assert (proof.status, proof.routes) == ("infeasible", None)
    else:
        assert proof.status == "optimal"
        assert proof.loss == pytest.approx(least)
        assert proof.bound == pytest.approx(least)


def test_a_routing_of_a_small_mesh_is_proved_and_lit():
    routed = choose_ports(hexagonal(3, 3), 6, "bidi")
    mesh, graph = routed.mesh, Graph.of(routed.mesh)
    tracer = Tracer(mesh.cells)
    for matching, known in zip(routed.matchings, routed.routes, strict=True):
        wanted = demands(mesh, graph, matching)
        free, helped = (solve(graph, wanted, routes) for routes in (None, known))
        assert free.status == helped.status == "optimal"
        assert free.loss == pytest.approx(helped.loss)
        assert helped.loss <= sum(graph.loss_of(lanes) for lanes in known.values())
        assert trivial_bound(Router(graph), wanted, "total") <= free.loss
        setting = setting_of(mesh, graph.gates(free.routes.values()))
        joined = [(mesh.ingress[a], mesh.ingress[b]) for a, b in matching]
        assert tracer.faults(setting, joined, mesh.ingress) == []
        assert sum(len(tracer.ray(one, setting).cells) for one, _ in joined) == free.loss


def matchings_of(edge, hosts):
    """Return a graph and, for each matching, the demands and a routing of them."""
    routed = choose_ports(hexagonal(edge, edge), hosts, "bidi")
    mesh, graph = routed.mesh, Graph.of(routed.mesh)
    wanted = [demands(mesh, graph, matching) for matching in routed.matchings]
    return graph, list(zip(wanted, routed.routes, strict=True))


@pytest.mark.parametrize(("edge", "hosts"), [(3, 6), (4, 8), (6, 16)])
def test_the_least_loss_is_what_prices_of_joints_prove(edge, hosts):
    chance = random.Random(edge)
    graph, matchings = matchings_of(edge, hosts)
    for wanted, known in matchings[:3]:
        proof = solve(graph, wanted, known)
        assert proof.status == "optimal"
        assert sum(map(graph.loss_of, proof.routes.values())) == proof.loss
        assert priced_bound(graph, wanted, good_prices(graph, wanted)) == proof.loss
        for highest in (0, UNIT // 8, UNIT, 3 * UNIT):
            prices = [chance.randint(0, highest) for _ in graph.joints]
            assert priced_bound(graph, wanted, prices) <= proof.loss


def test_prices_that_would_prove_too_much_are_refused():
    graph, [(wanted, _), *_] = matchings_of(3, 6)
    prices = [0] * len(graph.joints)
    used = {lane >> 1 for lane in solve(graph, wanted).routes[0]}
    prices[next(joint for joint in range(len(prices)) if joint not in used)] = -UNIT
    with pytest.raises(ValueError, match="negative"):
        priced_bound(graph, wanted, prices)


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.1])
@pytest.mark.parametrize(("edge", "hosts"), [(4, 8), (6, 16)])
def test_with_little_solver_time_the_bound_lies_between_routes_alone_and_the_least(
    edge, hosts, seconds
):
    graph, matchings = matchings_of(edge, hosts)
    for wanted, known in matchings[:3]:
        least = solve(graph, wanted, known).loss
        alone = trivial_bound(Router(graph), wanted, "total")
        helped, free = (solve(graph, wanted, routes, seconds=seconds) for routes in (known, None))
        for proof in (helped, free):
            assert alone <= proof.bound <= least <= proof.loss
            assert proof.gap >= 0
        assert helped.loss <= sum(map(graph.loss_of, known.values()))


def test_a_demand_with_several_goals_is_refused():
    graph = Graph.of(TINY)
    with pytest.raises(ValueError, match="one goal"):
        solve(graph, {0: Demand(0, frozenset({1, 2}))})
