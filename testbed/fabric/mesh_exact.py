"""Prove bounds on routing through a mesh with an integer program (HiGHS).

The program of PipSwitch (arXiv 2501.18136) in a complete form: a variable for each route and each
way of light through an arm; a route goes on from each lane that it comes to; each joint is on one
route at most. Gate states need no variables, since arms of different gates of a cell share a joint.
Ways that would make a route longer than in a known better routing are left out, which makes large
meshes possible and keeps the proof exact.

One variable for both ways of an arm would do, with half as many of them. But while variables are
not yet whole numbers, two halves of a route could then leave its port by two arms and meet head-on,
far from its goal, and bounds are weak: 161 cells for a matching of 32 ports on 9 × 9 hexagons whose
routes take 283 if each has the mesh to itself, and 289 together. With ways they are 283 at least.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from testbed.fabric.mesh_graph import Graph, Lanes
from testbed.fabric.mesh_router import Demand, Router

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

Objective = Literal["total", "worst"]
"""The loss of all routes together, or that of the worst of them."""
Way = tuple[int, int]
"""Light through a cell: the lane into it, and the lane out."""

_EXACT = 1e-6
"""How far a solver's figures may be off."""
_ENDED = {0: "optimal", 1: "open", 2: "infeasible"}
"""What the status of HiGHS in SciPy means to us: solved, out of time, without a solution."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The best routing found, and a lower bound of the loss of any routing."""

    status: Literal["optimal", "infeasible", "open"]
    """Open: time was over before it was certain."""
    routes: Mapping[int, Lanes] | None
    loss: float
    """Of the routes, by the objective; infinite without any."""
    bound: float
    """No routing has less; infinite where there is none."""

    @property
    def gap(self) -> float:
        """Return the relative gap between the loss found and the lower bound."""
        return (self.loss - self.bound) / self.bound if self.bound else math.inf


def solve(
    graph: Graph,
    demands: Mapping[int, Demand],
    known: Mapping[int, Lanes] | None = None,
    *,
    objective: Objective = "total",
    seconds: float = 60.0,
) -> Proof:
    """Return the best routing of demands, each with one goal, found within `seconds`.

    `known` is a routing to improve on. The result is routes in the graph; it is not checked by
    tracing light. Raise ValueError for a demand with several goals.
    """
    if any(len(demand.goals) != 1 for demand in demands.values()):
        raise ValueError("each demand of the integer program must have exactly one goal")
    program = _Program(graph, demands, known, objective)
    if program.impossible:
        return Proof("infeasible", None, math.inf, math.inf)
    found = program.run(seconds)
    status = _ENDED.get(found.status)
    if status is None:
        raise ArithmeticError(f"the solver (HiGHS) failed: {found.message}")
    if status == "infeasible":
        return Proof("infeasible", None, math.inf, math.inf)
    routes = known if found.x is None else program.routes(found.x)
    loss = _objective(graph, routes, objective) if routes else math.inf
    if known and _objective(graph, known, objective) <= loss:
        routes, loss = known, _objective(graph, known, objective)
    if status == "optimal":
        return Proof("optimal", routes, loss, loss)
    bound = max(program.trivial_bound, found.mip_dual_bound or 0.0)
    if all(arm.loss == 1 for arm in graph.arms):
        bound = math.ceil(bound - _EXACT)  # a number of cells is whole
    return Proof("open", routes, loss, min(bound, loss))


def trivial_bound(router: Router, demands: Mapping[int, Demand], objective: Objective) -> float:
    """Return the total loss of the demands if each were routed in an empty mesh."""
    losses = [router.distance(demand) for demand in demands.values()]
    return max(losses) if objective == "worst" else math.fsum(losses)


def _objective(graph: Graph, routes: Mapping[int, Lanes], objective: Objective) -> float:
    losses = [graph.loss_of(lanes) for lanes in routes.values()]
    return max(losses) if objective == "worst" else math.fsum(losses)


class _Program:
    """The variables and rows of the integer program."""

    def __init__(
        self,
        graph: Graph,
        demands: Mapping[int, Demand],
        known: Mapping[int, Lanes] | None,
        objective: Objective,
    ) -> None:
        self._graph, self._demands, self._objective = graph, demands, objective
        self._router = Router(graph)
        self._loss = {
            way: arm.loss for arm, ways in zip(graph.arms, graph.ends, strict=True) for way in ways
        }
        self.trivial_bound = trivial_bound(self._router, demands, objective)
        self._ends = {joint for demand in demands.values() for joint in _ends(demand)}
        best = _objective(graph, known, objective) if known else math.inf
        self._variables = [
            (key, way) for key in demands for way in self._useful(demands[key], best)
        ]
        self._entries: list[tuple[int, int, float]] = []
        self._low: list[float] = []
        self._high: list[float] = []
        self._conserve()
        self._share()
        if objective == "worst":
            self._limit_each()

    @property
    def impossible(self) -> bool:
        """Tell whether some demand has no route even in an empty mesh."""
        return self.trivial_bound == math.inf

    def run(self, seconds: float) -> OptimizeResult:
        """Run the HiGHS solver for at most `seconds`."""
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array

        variables = len(self._variables)
        worst = self._objective == "worst"
        cost = [0.0 if worst else self._loss[way] for _, way in self._variables]
        rows, columns, values = zip(*self._entries, strict=True)
        shape = (len(self._low), variables + worst)
        matrix = coo_array((values, (rows, columns)), shape=shape).tocsr()
        return milp(
            np.array(cost + [1.0] * worst),
            integrality=np.array([1] * variables + [0] * worst),
            bounds=Bounds(0, np.array([1.0] * variables + [np.inf] * worst)),
            constraints=LinearConstraint(matrix, self._low, self._high),
            options={"time_limit": seconds, "mip_rel_gap": 0.0},
        )

    def routes(self, values: Sequence[float]) -> dict[int, Lanes]:
        """Return the routes in a solution, without closed loops."""
        following: dict[int, dict[int, int]] = defaultdict(dict)
        for (key, (into, out)), value in zip(self._variables, values, strict=False):
            if value > 0.5:
                following[key][into] = out
        return {key: _walk(demand, following[key]) for key, demand in self._demands.items()}

    def _useful(self, demand: Demand, best: float) -> Iterator[Way]:
        """Yield the ways that a route may take in a routing that is as good as the best known."""
        (goal,) = demand.goals
        forth = self._router.graph.distances(demand.goals)
        back = self._router.graph.distances(frozenset({demand.start}))
        if self._objective == "worst":
            longest = best
        else:
            longest = self._router.distance(demand) + best - self.trivial_bound
        others = self._ends - {demand.start, goal}
        for (into, out), loss in self._loss.items():
            if {into >> 1, out >> 1} & others:
                continue
            # Light goes both ways: to come to a lane takes what the reversed lane takes back.
            through = back[into ^ 1] + loss + forth[out]
            if through <= longest + _EXACT and through < math.inf:
                yield into, out

    def _conserve(self) -> None:
        """Let each route begin at its port, end at the other, and go on from all other lanes."""
        sides: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
        for variable, (key, (into, out)) in enumerate(self._variables):
            sides[key, into].append((variable, 1.0))
            sides[key, out].append((variable, -1.0))
        for (key, lane), signs in sides.items():
            demand = self._demands[key]
            leaves = lane & 1 and lane >> 1 in demand.goals
            wanted = 1.0 if lane == 2 * demand.start else -1.0 if leaves else 0.0
            self._row(signs, wanted, wanted)

    def _share(self) -> None:
        """Let at most one route pass a joint, in one direction."""
        into: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for variable, (_, (_, out)) in enumerate(self._variables):
            into[out >> 1].append((variable, 1.0))
        for joint, signs in into.items():
            if joint not in self._ends:
                self._row(signs, -math.inf, 1.0)

    def _limit_each(self) -> None:
        """Let no route have more loss than the last variable says."""
        last = len(self._variables)
        losses: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for variable, (key, way) in enumerate(self._variables):
            losses[key].append((variable, self._loss[way]))
        for each in losses.values():
            self._row([*each, (last, -1.0)], -math.inf, 0.0)

    def _row(self, signs: Sequence[tuple[int, float]], low: float, high: float) -> None:
        row = len(self._low)
        self._entries += [(row, variable, sign) for variable, sign in signs]
        self._low.append(low)
        self._high.append(high)


def _walk(demand: Demand, following: Mapping[int, int]) -> Lanes:
    lanes = [2 * demand.start]
    while lanes[-1] in following:
        lanes.append(following[lanes[-1]])
    return tuple(lanes)


def _ends(demand: Demand) -> frozenset[int]:
    return demand.goals | {demand.start}
