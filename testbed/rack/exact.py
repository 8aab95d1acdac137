"""Find the best place of a slice, or prove that there is none, with an integer program (HiGHS).

Binary variables: `x[a, m]`, slot a is on server m; `f[e, u, v]`, the bundle of slot edge e crosses
the link from u to v. A bundle is a unit of flow from the server of one slot to that of the other,
so that all paths are considered, and not K of them for each pair as in Morphlux, section 5.2. As
there, the load of the most loaded link is minimised; here it is also bounded by the fibres of the
link.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from testbed.rack.slices import Occupancy, Route, Slice
from testbed.rack.torus import SlotGraph, Torus

if TYPE_CHECKING:
    import numpy as np


NODES = 500
"""Branch-and-bound nodes, so that the same request has the same answer on every machine."""
LIMIT_S = 30.0
"""Seconds after which even these are given up."""


class Answer(NamedTuple):
    """The solver's result: a place, and whether it is proved best, or that there is none."""

    place: Slice | None
    proved: bool


def solve(torus: Torus, graph: SlotGraph, state: Occupancy, nodes: int = NODES) -> Answer:
    """Return the place that minimises the load of the most loaded link, within its capacity.

    Blocks for up to half a minute; a result that needs more than `nodes` nodes is unproved.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # late: few commands need a solver

    model = _Model(torus, graph, state)
    matrix, low, high = model.rows()
    result = milp(
        model.cost(),
        integrality=model.integrality(),
        bounds=Bounds(*model.bounds()),
        constraints=LinearConstraint(matrix, low, high),
        options={"node_limit": nodes, "time_limit": LIMIT_S, "mip_rel_gap": 0.0},
    )
    place = None if result.x is None else model.place(result.x)
    return Answer(place, proved=result.status in (0, 2))


class _Model:
    """Variables are numbered: x by slot and server, f by edge and arc, and z last."""

    def __init__(self, torus: Torus, graph: SlotGraph, state: Occupancy) -> None:
        self.torus, self.graph, self.state = torus, graph, state
        self.servers = sorted(state.free)
        self.edges = list(graph.bundles)
        self.arcs = [arc for a, b in torus.links for arc in ((a, b), (b, a))]
        self.first_flow = graph.slots * len(self.servers)
        self.z = self.first_flow + len(self.edges) * len(self.arcs)
        self.entries: list[tuple[int, int, float]] = []
        self.limits: list[tuple[float, float]] = []

    def x(self, slot: int, server: int) -> int:
        return slot * len(self.servers) + self.servers.index(server)

    def f(self, edge: int, arc: int) -> int:
        return self.first_flow + edge * len(self.arcs) + arc

    def cost(self) -> np.ndarray[Any, Any]:
        import numpy as np

        cost = np.zeros(self.z + 1)
        # Detours and circles cost a little, all of them together less than one fibre more.
        cost[self.first_flow : self.z] = 1 / (self.z - self.first_flow + 1)
        cost[self.z] = 1.0
        return cost

    def integrality(self) -> np.ndarray[Any, Any]:
        import numpy as np

        return np.append(np.ones(self.z), 0)

    def bounds(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        import numpy as np

        low, high = np.zeros(self.z + 1), np.ones(self.z + 1)
        high[self.z] = max(self.torus.links.values())
        carried = zip(self.torus.links.values(), self.state.room, strict=True)
        bundles = (fibres for _, fibres in self.graph.bundles)
        low[self.z] = max([*(whole - left for whole, left in carried), *bundles])
        return low, high

    def row(self, terms: Sequence[tuple[int, float]], low: float, high: float) -> None:
        self.entries += [(len(self.limits), column, value) for column, value in terms]
        self.limits.append((low, high))

    def rows(self) -> tuple[Any, list[float], list[float]]:
        from scipy.sparse import csr_matrix

        self._places()
        self._flows()
        self._capacities()
        row, column, value = zip(*self.entries, strict=True)
        matrix = csr_matrix((value, (row, column)), shape=(len(self.limits), self.z + 1))
        return matrix, [low for low, _ in self.limits], [high for _, high in self.limits]

    def _places(self) -> None:
        for slot in range(self.graph.slots):
            self.row([(self.x(slot, server), 1) for server in self.servers], 1, 1)
        for server in self.servers:
            self.row([(self.x(slot, server), 1) for slot in range(self.graph.slots)], 0, 1)

    def _flows(self) -> None:
        inf = float("inf")
        for edge, ((a, b), _) in enumerate(self.edges):
            for server in range(len(self.torus.servers)):
                out = [
                    (self.f(edge, i), 1.0) for i, arc in enumerate(self.arcs) if arc[0] == server
                ]
                into = [
                    (self.f(edge, i), 1.0) for i, arc in enumerate(self.arcs) if arc[1] == server
                ]
                ends: list[tuple[int, float]] = []
                if server in self.state.free:
                    ends = [(self.x(a, server), -1.0), (self.x(b, server), 1.0)]
                    # Implied for whole numbers: else half a slot's light would end where the other
                    # half begins, and the relaxation would say nothing.
                    self.row([*out, (self.x(a, server), -1.0)], 0, inf)
                    self.row([*into, (self.x(b, server), -1.0)], 0, inf)
                self.row([*out, *((column, -1.0) for column, _ in into), *ends], 0, 0)
                self.row(out, 0, 1)

    def _capacities(self) -> None:
        for number, (whole, left) in enumerate(
            zip(self.torus.links.values(), self.state.room, strict=True)
        ):
            terms = [
                (self.f(edge, 2 * number + way), float(fibres))
                for edge, (_, fibres) in enumerate(self.edges)
                for way in (0, 1)
            ]
            self.row(terms, 0, left)
            self.row([*terms, (self.z, -1.0)], -float("inf"), left - whole)

    def place(self, values: Sequence[float]) -> Slice:
        at = tuple(
            next(server for server in self.servers if values[self.x(slot, server)] > 0.5)
            for slot in range(self.graph.slots)
        )
        paths = tuple(
            self._path(values, edge, at[a], at[b]) for edge, ((a, b), _) in enumerate(self.edges)
        )
        return Slice(self.graph.shape, at, paths)

    def _path(self, values: Sequence[float], edge: int, start: int, end: int) -> Route:
        then = {arc[0]: arc[1] for i, arc in enumerate(self.arcs) if values[self.f(edge, i)] > 0.5}
        path = [start]
        while path[-1] != end:
            path.append(then[path[-1]])
        return tuple(path)
