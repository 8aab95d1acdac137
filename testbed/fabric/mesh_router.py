"""Route many circuits through a photonic mesh together, by rip-up and negotiated prices.

Each route takes the path of least loss; a joint of another route costs extra, and that other route
is ripped up and routed again later. Each time its price rises for good, so that routes with
alternatives come to avoid the joint (PathFinder: McMurchie and Ebeling, FPGA 1995). The number of
searches is bounded, and the result is the same for the same seed. A possible routing may be missed;
`mesh_exact` can prove that there is none.
"""

from __future__ import annotations

import math
import random
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from testbed.fabric.mesh_graph import Graph, Lanes

TAKING = 3.0
"""What it costs to take a joint from another route, in mean losses of a cell."""
_GROWTH = 1.0
"""By how much the price of a joint grows when it changes hands, in mean losses of a cell."""
_ROUNDS = 6
"""How often finished routes are each routed again to be shorter."""


class Demand(NamedTuple):
    """The joint where a route starts, and the external joints of which it may reach any."""

    start: int
    goals: frozenset[int]


@dataclass(slots=True)
class Attempt:
    """The result of routing: every route, or the joints that routes contested."""

    routes: dict[int, Lanes] | None
    searches: int
    contested: Counter[int] = field(default_factory=Counter)
    """How often each joint changed hands."""


class Router:
    """Routes sets of demands through one mesh."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def distance(self, demand: Demand) -> float:
        """Return the least loss of a demand in an otherwise empty mesh."""
        return self.graph.distances(demand.goals)[2 * demand.start]

    def route(
        self,
        demands: Mapping[int, Demand],
        limit: int,
        *,
        seed: int = 0,
        fixed: Iterable[Lanes] = (),
        present: Mapping[int, Lanes] | None = None,
    ) -> Attempt:
        """Return a route for each demand within `limit` searches, or an attempt without routes.

        `fixed` routes are not changed. `present` routes are kept unless they must be ripped up.
        """
        board = _Board(self.graph, fixed)
        attempt = Attempt(None, 0)
        for key, lanes in (present or {}).items():
            board.lay(key, lanes)
        waiting = deque(self._order(demands, board.routes, seed))
        while waiting:
            if attempt.searches >= limit:
                return attempt
            attempt.searches += 1
            key = waiting.popleft()
            demand = demands[key]
            found = search(self.graph, demand, self.graph.distances(demand.goals), board.price)
            if found is None:
                return attempt
            if crossed := _crossed(found):
                board.avoid(crossed)
                waiting.appendleft(key)
                continue
            waiting.extend(board.rip_up(found, attempt.contested))
            board.lay(key, found)
        attempt.routes = board.routes
        return attempt

    def shorten(self, demands: Mapping[int, Demand], routes: Mapping[int, Lanes]) -> Attempt:
        """Return routes of less or equal loss: each is routed again with the others fixed."""
        board = _Board(self.graph, (), taken=math.inf)
        for key, lanes in routes.items():
            board.lay(key, lanes)
        attempt = Attempt(board.routes, 0)
        for _ in range(_ROUNDS):
            gained = False
            for key, demand in demands.items():
                before = self.graph.loss_of(board.routes[key])
                if before <= self.distance(demand):
                    continue
                attempt.searches += 1
                old = board.take_up(key)
                found = search(self.graph, demand, self.graph.distances(demand.goals), board.price)
                new = old if found is None or _crossed(found) else found
                board.lay(key, new)
                gained = gained or self.graph.loss_of(new) < before
            if not gained:
                break
        return attempt

    def _order(
        self, demands: Mapping[int, Demand], present: Mapping[int, Lanes], seed: int
    ) -> list[int]:
        """Return the demands without a route, the shortest first, or in the order of a seed."""
        missing = [key for key in demands if key not in present]
        if seed:
            random.Random(seed).shuffle(missing)
            return missing
        return sorted(missing, key=lambda key: self.distance(demands[key]))


class _Board:
    """The routes that are laid, and what each joint costs besides its loss."""

    def __init__(self, graph: Graph, fixed: Iterable[Lanes], taken: float = TAKING) -> None:
        self._unit = graph.mean_loss
        self._taken = taken * self._unit
        self._history = [0.0] * len(graph.joints)
        self.price = [0.0] * len(graph.joints)
        self._owner: dict[int, int] = {}
        self.routes: dict[int, Lanes] = {}
        for lanes in fixed:
            for lane in lanes:
                self.price[lane >> 1] = self._history[lane >> 1] = math.inf

    def lay(self, key: int, lanes: Lanes) -> None:
        """Add a route on joints that no other route uses."""
        self.routes[key] = lanes
        for lane in lanes:
            joint = lane >> 1
            self._owner[joint] = key
            self.price[joint] = self._history[joint] + self._taken

    def take_up(self, key: int) -> Lanes:
        """Remove a route and return it."""
        lanes = self.routes.pop(key)
        for lane in lanes:
            joint = lane >> 1
            del self._owner[joint]
            self.price[joint] = self._history[joint]
        return lanes

    def rip_up(self, lanes: Lanes, contested: Counter[int]) -> list[int]:
        """Remove and return every route that conflicts with another one, and raise prices there."""
        found: list[int] = []
        for lane in lanes:
            joint = lane >> 1
            owner = self._owner.get(joint)
            if owner is not None:
                self.take_up(owner)
                self._raise(joint)
                contested[joint] += 1
                found.append(owner)
        return found

    def avoid(self, joints: Iterable[int]) -> None:
        """Raise the price of joints that one route used in both directions."""
        for joint in joints:
            self._raise(joint)

    def _raise(self, joint: int) -> None:
        self._history[joint] += _GROWTH * self._unit
        self.price[joint] += _GROWTH * self._unit


def search(
    graph: Graph, demand: Demand, distances: Sequence[float], price: Sequence[float]
) -> Lanes | None:
    """Return the cheapest route of a demand, given prices of joints; None if there is none.

    This is an A* search: the distance in an empty mesh is a lower bound of the remaining cost.
    """
    onward = graph.onward
    start = 2 * demand.start
    best = {start: 0.0}
    before: dict[int, int] = {}
    waiting = [(distances[start], 0.0, start)]
    while waiting:
        _, cost, lane = heappop(waiting)
        following = onward[lane]
        if not following:
            break
        if -cost > best[lane]:
            continue
        for there, loss in following:
            so_far = loss + price[there >> 1] - cost
            if so_far < best.get(there, math.inf):
                estimate = so_far + distances[there]
                if estimate < math.inf:
                    best[there] = so_far
                    before[there] = lane
                    heappush(waiting, (estimate, -so_far, there))
    else:
        return None
    return _back(before, lane)


def _back(before: Mapping[int, int], lane: int) -> Lanes:
    lanes = [lane]
    while (lane := before.get(lane, -1)) >= 0:
        lanes.append(lane)
    return tuple(reversed(lanes))


def _crossed(lanes: Lanes) -> list[int]:
    """Return the joints that a route takes in both directions, which light cannot."""
    joints = Counter(lane >> 1 for lane in lanes)
    return [joint for joint, times in joints.items() if times > 1]
