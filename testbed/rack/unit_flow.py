"""Find routes of circuits from several servers to one, each on fibres of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from testbed.rack.slices import Route
from testbed.rack.torus import Torus

Flow = Counter[tuple[int, int]]
"""How many circuits more go one way over a link than the other way."""


def routes_to(
    torus: Torus, end: int, starts: Sequence[int], room: Sequence[int]
) -> list[Route] | None:
    """Return a route to `end` from each server of `starts`, in order; None if impossible.

    `room` is the number of free fibres of each link. The method is maximum flow by shortest
    augmenting paths (Edmonds and Karp, 1972), which re-routes earlier circuits where another one
    needs their fibres, so None is a proof.
    """
    flow: Flow = Counter()
    for start in starts:
        path = _augmenting(torus, start, end, room, flow)
        if path is None:
            return None
        for here, there in pairwise(path):
            flow[here, there] += 1
            flow[there, here] -= 1
    return [_taken(start, end, flow) for start in starts]


def _augmenting(
    torus: Torus, start: int, end: int, room: Sequence[int], flow: Flow
) -> list[int] | None:
    came_from = {start: start}
    reached = [start]
    for here in reached:
        for there, link in torus.neighbours[here]:
            if there not in came_from and flow[here, there] < room[link]:
                came_from[there] = here
                reached.append(there)
    if end not in came_from:
        return None
    path = [end]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path[::-1]


def _taken(start: int, end: int, flow: Flow) -> Route:
    """Take one route out of a flow; circles on the way are left out."""
    path = [start]
    while path[-1] != end:
        here = path[-1]
        there = next(b for (a, b), circuits in flow.items() if a == here and circuits > 0)
        flow[here, there] -= 1
        flow[there, here] += 1
        path.append(there)
        if there in path[:-1]:
            del path[path.index(there) + 1 :]
    return tuple(path)
