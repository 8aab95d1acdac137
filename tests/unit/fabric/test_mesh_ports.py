"""The choice of ports, and all matchings between them, traced."""

import pytest

from testbed.fabric.matchings import round_robin
from testbed.fabric.mesh import hexagonal
from testbed.fabric.mesh_graph import Graph
from testbed.fabric.mesh_light import Tracer
from testbed.fabric.mesh_ports import choose_ports, ports_needed, route_all
from testbed.fabric.mesh_routes import setting_of

# Mesh edge, hosts, and what each host has: reciprocal ports as in PipSwitch, or one a direction.
DAILY = [(3, 6, "bidi"), (4, 8, "bidi"), (4, 4, "tx-rx"), (5, 22, "bidi")]
FULL = [(6, 16, "bidi"), (9, 32, "bidi"), (8, 32, "bidi"), (7, 32, "bidi")]


def check_light(routed):
    """Trace every matching that was routed."""
    graph, mesh = Graph.of(routed.mesh), routed.mesh
    tracer = Tracer(mesh.cells)
    for matching, routes in zip(routed.matchings, routed.routes, strict=True):
        setting = setting_of(mesh, graph.gates(routes.values()))
        joined = [(mesh.ingress[a], mesh.egress[b]) for a, b in matching]
        assert tracer.faults(setting, joined, mesh.ports.values()) == []


def find_all(edge, hosts, kind):
    """Choose ports for hosts, and check what comes of it."""
    routed = choose_ports(hexagonal(edge, edge), hosts, kind, limit=400_000)
    assert len(routed.matchings) == hosts - 1
    assert len(routed.rim) == len(set(routed.rim)) == ports_needed(hosts, kind)
    assert (routed.is_whole, routed.mesh.kind) == (True, kind)
    check_light(routed)


@pytest.mark.parametrize(("edge", "hosts", "kind"), DAILY)
def test_ports_are_found_for_which_all_matchings_are_routed(edge, hosts, kind):
    find_all(edge, hosts, kind)


@pytest.mark.soak
@pytest.mark.parametrize(("edge", "hosts", "kind"), FULL)
def test_many_ports_are_found_for_which_all_matchings_are_routed(edge, hosts, kind):
    find_all(edge, hosts, kind)


def test_the_search_chooses_the_same_ports_for_the_same_seed():
    first, second = (choose_ports(hexagonal(3, 3), 10, "bidi", seed=3, limit=900) for _ in "ab")
    assert (first.rim, first.routes) == (second.rim, second.routes)


def test_hosts_out_of_their_order_around_the_rim_leave_room_in_the_middle_of_a_mesh():
    """The same ports: with hosts in their order the pairs of a matching are parallel chords."""
    routed = choose_ports(hexagonal(5, 5), 22, "bidi", limit=400_000)
    assert list(routed.rim) != sorted(routed.rim)
    in_order = route_all(hexagonal(5, 5), sorted(routed.rim), "bidi", per_route=16)
    assert in_order.count < routed.count == 21


def test_matchings_are_not_tried_after_too_many_that_failed():
    failing = range(0, 60, 2)[:30]
    whole = route_all(hexagonal(7, 7), failing, "bidi", per_route=1)
    part = route_all(hexagonal(7, 7), failing, "bidi", per_route=1, most_failed=2)
    assert whole.count == part.count == 0
    assert part.searches < whole.searches / 10


def test_more_routing_attempts_give_no_longer_paths():
    mesh, rim = hexagonal(4, 4), (0, 5, 9, 14, 18, 23, 27, 32)
    graph = Graph.of(mesh)
    totals = []
    for orders in (1, 4):
        routed = route_all(mesh, rim, "bidi", orders=orders)
        routes = [lanes for each in routed.routes for lanes in each.values()]
        totals.append(sum(map(graph.loss_of, routes)))
    assert totals[1] <= totals[0]


def test_the_search_for_ports_ends_when_it_is_cancelled():
    asked = []
    routed = choose_ports(
        hexagonal(2, 2), 16, "bidi", stop=lambda: len(asked.append(0) or asked) > 3
    )
    assert len(asked) == 4
    assert routed.count < len(routed.matchings)


def test_the_search_for_ports_ends_at_its_limit():
    assert choose_ports(hexagonal(2, 2), 16, "bidi", limit=1).searches > 0


def test_a_mesh_with_too_few_ports_is_refused():
    with pytest.raises(ValueError, match="28 external ports, 30 are needed"):
        choose_ports(hexagonal(3, 3), 30, "bidi")
    with pytest.raises(ValueError, match="28 external ports, 32 are needed"):
        choose_ports(hexagonal(3, 3), 16, "tx-rx")
    with pytest.raises(ValueError, match="an even number"):
        choose_ports(hexagonal(3, 3), 5, "bidi")


def test_the_matchings_of_routed_ports_are_those_of_a_round_robin():
    routed = route_all(hexagonal(4, 4), (0, 9, 18, 27), "bidi")
    assert routed.matchings == round_robin(4)
