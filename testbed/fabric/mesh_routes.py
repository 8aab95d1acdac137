"""Find settings of a photonic mesh that add wanted circuits to the present ones.

It replaces the integer program of PipSwitch (arXiv 2501.18136) where an answer is needed at once;
it can miss a routing that `mesh_exact` would find. Light of unused ports is routed to unused
external ports: a mesh is never dark, and light that is not routed may leave at any port.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from testbed.fabric.mesh import Gate, Mesh, Path, Setting
from testbed.fabric.mesh_graph import Graph, Lanes
from testbed.fabric.mesh_router import Demand, Router

_SEARCHES = 24
"""Searches for each port, after which another order is tried."""
_ORDERS = 3


class Blocked(ValueError):
    """No setting of the cells was found that makes the wanted circuits."""


@dataclass(frozen=True, slots=True)
class Routing:
    """The state of every cell, the light path from every ingress port, and the cost."""

    setting: Setting
    paths: Mapping[int, Path]
    disturbed: Mapping[int, int]
    """Circuits that stay, but on another path: they are dark while cells change."""


def route(mesh: Mesh, wanted: Mapping[int, int]) -> Routing:
    """Return a routing of a whole matching, ingress to egress, that keeps present paths.

    Of reciprocal ports, the lower one of a pair comes first. Present circuits keep their paths
    where that leaves a route for the others. What was computed before is used where it leaves them.
    Raise Blocked when no routing was found, ValueError when `wanted` is no matching of the mesh.
    """
    _check(mesh, wanted)
    kept = _kept(mesh, wanted)
    if before := _known(mesh, wanted, kept):
        return before
    graph = Graph.of(mesh)
    lanes = {port: _lanes(graph, path) for port, path in kept.items()}
    routes = _routed(mesh, graph, wanted, lanes)
    if routes is None:
        circuits = ", ".join(f"{i}→{e}" for i, e in sorted(wanted.items()))
        raise Blocked(f"found no routes through the mesh for {circuits} at the same time")
    setting = setting_of(mesh, graph.gates(routes.values()))
    paths = {port: mesh.path(port, setting) for port in sorted(routes)}
    disturbed = {i: wanted[i] for i, path in kept.items() if paths[i] != path}
    return Routing(setting, paths, disturbed)


def setting_of(mesh: Mesh, gates: Mapping[int, Gate]) -> Setting:
    """Return a complete setting: cells that `gates` lacks keep their state, or are in bar."""
    present = mesh.setting or (Gate.BAR,) * len(mesh.cells)
    chosen = {**dict(enumerate(present)), **gates, **mesh.stuck}
    return tuple(chosen[cell] for cell in range(len(mesh.cells)))


def moved_cells(mesh: Mesh, setting: Setting, ports: Iterable[int]) -> list[int]:
    """Return the cells that carry the light of some ingress ports now and would stand otherwise.

    They have the device's own numbers.
    """
    present = setting_of(mesh, {})
    steps = {step for port in ports for step in mesh.path(port, present).steps}
    moved = {step.cell for step in steps if setting[step.cell] is not step.gate}
    return sorted(mesh.numbers[cell] if mesh.numbers else cell for cell in moved)


def _check(mesh: Mesh, wanted: Mapping[int, int]) -> None:
    inputs = len(mesh.ingress)
    for ingress, egress in wanted.items():
        least = ingress if mesh.reciprocal else inputs
        if not 1 <= ingress <= inputs or not least < egress <= len(mesh.ports):
            ports = f"ingress ports are 1-{inputs}, egress ports are {least + 1}-{len(mesh.ports)}"
            raise ValueError(f"cannot connect {ingress}→{egress}: {ports}")
    if len(set(wanted.values())) != len(wanted):
        raise ValueError("two ingress ports are to be connected to one egress port")
    if mesh.reciprocal and (twice := sorted(wanted.keys() & set(wanted.values()))):
        raise ValueError(f"port {twice[0]} is to be used in two circuits")


def _kept(mesh: Mesh, wanted: Mapping[int, int]) -> dict[int, Path]:
    """Return the paths of the wanted circuits that are there already."""
    if mesh.setting is None:
        return {}
    setting = setting_of(mesh, {})
    present = mesh.circuits(setting)
    return {i: mesh.path(i, setting) for i, e in sorted(wanted.items()) if present.get(i) == e}


def _known(mesh: Mesh, wanted: Mapping[int, int], kept: Mapping[int, Path]) -> Routing | None:
    """Return what was computed before for the wanted circuits, if no present path is another."""
    setting = mesh.known.get(frozenset(wanted.items()))
    if setting is None:
        return None
    ends = wanted.values() if mesh.reciprocal else ()
    ports = [port for port in range(1, len(mesh.ingress) + 1) if port not in ends]
    paths = {port: mesh.path(port, setting) for port in ports}
    return Routing(setting, paths, {}) if all(paths[i] == p for i, p in kept.items()) else None


def _routed(
    mesh: Mesh, graph: Graph, wanted: Mapping[int, int], kept: Mapping[int, Lanes]
) -> dict[int, Lanes] | None:
    """Return a route for every port that light enters, beside the kept ones where that is possible.

    Where it is not, the kept ones may be moved, but only those that are in the way.
    """
    demands = _demands(mesh, graph, wanted)
    router = Router(graph)
    limit = _SEARCHES * len(demands)
    new = {port: demand for port, demand in demands.items() if port not in kept}
    for seed in range(_ORDERS):
        beside = router.route(new, limit, seed=seed, fixed=kept.values())
        if beside.routes is not None:
            return {**kept, **beside.routes}
    for seed in range(_ORDERS) if kept else ():
        among = router.route(demands, limit, seed=seed, present=kept)
        if among.routes is not None:
            return among.routes
    return None


def _demands(mesh: Mesh, graph: Graph, wanted: Mapping[int, int]) -> dict[int, Demand]:
    """Return where the light of each port that may send must go; of unused ones, any unused end."""
    used = frozenset(mesh.ports.values())
    unused = frozenset(graph.number[joint] for joint in mesh.rim if joint not in used)
    demands = {}
    for port in range(1, len(mesh.ingress) + 1):
        if port in wanted:
            goals = frozenset({graph.number[mesh.ports[wanted[port]]]})
        elif mesh.reciprocal and port in wanted.values():
            continue
        else:
            goals = unused
        demands[port] = Demand(graph.number[mesh.ports[port]], goals)
    return demands


def _lanes(graph: Graph, path: Path) -> Lanes:
    """Return the lanes of a path of light."""
    joints = [graph.number[step.entry] for step in path.steps] + [graph.number[path.end]]
    lanes = [2 * joints[0]]
    for joint in joints[1:]:
        lanes.append(next(lane for lane, _ in graph.onward[lanes[-1]] if lane >> 1 == joint))
    return tuple(lanes)
