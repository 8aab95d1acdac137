"""All-to-all through photonic meshes: how small they can be, how long it takes, how good it is.

Seconds are of one core. Every row says what a host has: `bidi`, one reciprocal port and one route
for each pair (as in PipSwitch, arXiv 2501.18136), or `tx-rx`, one port for each direction.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest

from testbed.fabric.matchings import Matching
from testbed.fabric.mesh import PortKind, hexagonal
from testbed.fabric.mesh_exact import solve, trivial_bound
from testbed.fabric.mesh_graph import Graph
from testbed.fabric.mesh_ports import Routed, choose_ports, demands, route_all
from testbed.fabric.mesh_router import Router
from testbed.fabric.mesh_switch import MeshSwitch

FOUND_WITHIN = 60.0
"""Seconds in which ports must be found."""
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


@pytest.mark.parametrize(
    ("edge", "hosts", "seconds", "most"),
    [(3, 6, 60.0, 0.0), (4, 8, 60.0, 0.0), (6, 16, 60.0, 0.0), (9, 32, 5.0, 0.12)],
)
def test_optimal(edge: int, hosts: int, seconds: float, most: float) -> None:
    """Prove the total loss of each matching least, or bound it; `most` is the gap of all."""
    mesh = hexagonal(edge, edge)
    chosen = choose_ports(mesh, hosts, "bidi", limit=NO_LIMIT, stop=_after(FOUND_WITHIN))
    routed = route_all(mesh, chosen.rim, "bidi", orders=16, per_route=16)
    begun = time.process_time()
    alone, loss, bound, proved = 0.0, 0.0, 0.0, 0
    for number, matching in enumerate(routed.matchings):
        each = _proved(routed, number, matching, seconds)
        alone, loss, bound = alone + each[0], loss + each[1], bound + each[2]
        proved += each[1] <= each[2]
    took = time.process_time() - begun
    gap = (loss - bound) / bound
    _tell(
        edge,
        "bidi",
        routed,
        f"total {loss:.0f} cells, bound {bound:.0f} (routes alone {alone:.0f}), gap {gap:.2%}, "
        f"{proved} matchings proved optimal, {took:.0f} s",
    )
    assert gap <= most


def _proved(
    routed: Routed, number: int, matching: Matching, seconds: float
) -> tuple[float, float, float]:
    """Return of one matching the loss of routes alone, that of the best routing, and its bound."""
    graph = Graph.of(routed.mesh)
    wanted = demands(routed.mesh, graph, matching)
    proof = solve(graph, wanted, routed.routes[number], seconds=seconds)
    return trivial_bound(Router(graph), wanted, "total"), proof.loss, proof.bound


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
