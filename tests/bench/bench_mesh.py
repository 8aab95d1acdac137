"""All-to-all through photonic meshes: how small they can be, how long it takes, how good it is.

Seconds are of one core. Every row says what a host has: `bidi`, one reciprocal port and one route
for each pair (as in PipSwitch, arXiv 2501.18136), or `tx-rx`, one port for each direction.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import pytest

from testbed.fabric.mesh import PortKind, hexagonal
from testbed.fabric.mesh_exact import solve, trivial_bound
from testbed.fabric.mesh_graph import Graph, Lanes
from testbed.fabric.mesh_ports import Routed, choose_ports, demands, route_all
from testbed.fabric.mesh_router import Router
from testbed.fabric.mesh_switch import MeshSwitch
from tests.unit.fabric.joint_prices import good_prices, priced_bound

FOUND_WITHIN = 60.0
"""Seconds in which ports must be found."""
PROVED_WITHIN = 300.0
"""Seconds that the integer program has for one matching."""
NO_LIMIT = 10**9


@pytest.mark.parametrize(
    ("edge", "hosts", "kind", "routed_within"),
    [
        (9, 32, "bidi", 1.0),
        (8, 32, "bidi", 15.0),
        (7, 32, "bidi", 15.0),
        (14, 64, "bidi", 15.0),
        (9, 16, "tx-rx", 15.0),
    ],
)
def test_all_to_all(edge: int, hosts: int, kind: PortKind, routed_within: float) -> None:
    mesh = hexagonal(edge, edge)
    begun = time.process_time()
    chosen = choose_ports(mesh, hosts, kind, limit=NO_LIMIT, stop=_after(FOUND_WITHIN))
    found = time.process_time() - begun
    begun = time.process_time()
    routed = route_all(mesh, chosen.rim, kind)
    took = time.process_time() - begun
    _tell(edge, kind, routed, f"ports found in {found:.1f} s, routed in {took:.2f} s")
    assert routed.is_whole
    assert took < routed_within
    switch = MeshSwitch.of(routed)
    assert MeshSwitch.from_json(switch.to_json()).is_all_to_all  # traces every matching


@pytest.mark.parametrize(("edge", "hosts", "minutes"), [(6, 32, 10), (12, 64, 10)])
def test_one_size_below(edge: int, hosts: int, minutes: int) -> None:
    """Print the most matchings found; a mesh with too few external ports would be refused."""
    mesh = hexagonal(edge, edge)
    routed = choose_ports(mesh, hosts, "bidi", limit=NO_LIMIT, stop=_after(60.0 * minutes))
    _tell(edge, "bidi", routed, f"the most in {minutes} minutes")


@pytest.mark.parametrize(("edge", "hosts"), [(3, 6), (4, 8), (6, 16), (7, 32), (9, 32)])
def test_optimal(edge: int, hosts: int) -> None:
    """Prove the total loss of each matching least, by the integer program and by prices alone."""
    mesh = hexagonal(edge, edge)
    chosen = choose_ports(mesh, hosts, "bidi", limit=NO_LIMIT, stop=_after(FOUND_WITHIN))
    begun = time.process_time()
    routed = route_all(mesh, chosen.rim, "bidi", orders=64, per_route=16)
    shortened = time.process_time() - begun
    each = [_proved(routed, number) for number in range(len(routed.matchings))]
    total = _Proved(None, *map(math.fsum, zip(*(one[1:] for one in each), strict=True)))
    best = replace(routed, routes=tuple(one.routes for one in each))
    assert MeshSwitch.from_json(MeshSwitch.of(best).to_json()).is_all_to_all  # traces each
    proved = sum(one.loss <= one.bound for one in each)
    _tell(
        edge,
        "bidi",
        best,
        f"total {total.loss:.0f} cells ({total.known:.0f} by the router, in {shortened:.1f} s), "
        f"bound {total.bound:.0f} (routes alone {total.alone:.0f}), "
        f"gap {(total.loss - total.bound) / total.bound:.2%}, {proved} matchings proved optimal "
        f"in {total.took:.1f} s; prices of joints prove {total.priced:.0f} "
        f"in {total.took_prices:.1f} s",
    )
    assert total.loss == total.bound == total.priced


class _Proved(NamedTuple):
    routes: Mapping[int, Lanes] | None
    alone: float
    """The total loss of routes that have the mesh to themselves."""
    known: float
    loss: float
    bound: float
    priced: float
    """The bound by prices of joints."""
    took: float
    """Seconds that the integer program took."""
    took_prices: float


def _proved(routed: Routed, number: int) -> _Proved:
    """Return what is known of one matching, from the router, the program and prices."""
    graph = Graph.of(routed.mesh)
    wanted = demands(routed.mesh, graph, routed.matchings[number])
    known = routed.routes[number] or {}
    begun = time.process_time()
    proof = solve(graph, wanted, known, seconds=PROVED_WITHIN)
    solved = time.process_time()
    priced = priced_bound(graph, wanted, good_prices(graph, wanted))
    return _Proved(
        routes=proof.routes,
        alone=trivial_bound(Router(graph), wanted, "total"),
        known=math.fsum(map(graph.loss_of, known.values())),
        loss=proof.loss,
        bound=proof.bound,
        priced=priced,
        took=solved - begun,
        took_prices=time.process_time() - solved,
    )


def _tell(edge: int, kind: PortKind, routed: Routed, more: str) -> None:
    graph = Graph.of(routed.mesh)
    losses = [graph.loss_of(r) for routes in routed.routes if routes for r in routes.values()]
    mean = math.fsum(losses) / len(losses) if losses else math.nan
    hosts = len(routed.mesh.ingress)
    print(
        f"\n{edge} × {edge}, {len(routed.mesh.cells)} cells, {hosts} hosts, {kind}: "
        f"{routed.count} of {len(routed.matchings)} matchings, {mean:.1f} cells a route "
        f"({max(losses, default=math.nan):.0f} at most), seed 0; {more}; "
        f"ports {' '.join(map(str, routed.rim))}"
    )


def _after(seconds: float) -> Callable[[], bool]:
    """Return what tells that this process has computed for so long."""
    end = time.process_time() + seconds
    return lambda: time.process_time() >= end
