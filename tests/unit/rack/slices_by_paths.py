"""Slices as choices of whole paths, solved by HiGHS: an audit of refusals, and slow.

For each slot edge, one of all simple paths of up to a few links between any two free servers; the
path of an edge begins where its first slot is and ends where its second one is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_matrix

from testbed.rack.slices import Occupancy
from testbed.rack.torus import Shape, Torus, slot_graph

Row = dict[int, float]


def placeable(
    torus: Torus, state: Occupancy, shape: Shape, hops: int, seconds: float
) -> bool | None:
    """Return whether HiGHS finds a place, proves that there is none, or neither in its time."""
    graph = slot_graph(torus, shape)
    free = sorted(state.free)
    thinnest = min(graph.edges.values())
    paths = [path for start in free for path in _paths(torus, state, start, hops, thinnest)]
    x = {
        (slot, m): i for i, (slot, m) in enumerate((s, m) for s in range(graph.slots) for m in free)
    }
    chosen = {
        (edge, number): len(x) + edge * len(paths) + number
        for edge in range(len(graph.edges))
        for number in range(len(paths))
    }
    rows: list[tuple[Row, float, float]] = []
    rows += [({x[slot, m]: 1.0 for m in free}, 1, 1) for slot in range(graph.slots)]
    rows += [({x[slot, m]: 1.0 for slot in range(graph.slots)}, 0, 1) for m in free]
    load: dict[int, Row] = defaultdict(dict)
    for edge, ((a, b), fibres) in enumerate(graph.edges.items()):
        begins: dict[int, Row] = {m: {x[a, m]: -1.0} for m in free}
        ends: dict[int, Row] = {m: {x[b, m]: -1.0} for m in free}
        for number, path in enumerate(paths):
            begins[path[0]][chosen[edge, number]] = 1.0
            ends[path[-1]][chosen[edge, number]] = 1.0
            for here, there in pairwise(path):
                link = torus.link_numbers[min(here, there), max(here, there)]
                load[link][chosen[edge, number]] = float(fibres)
        rows += [(row, 0, 0) for side in (begins, ends) for row in side.values()]
    rows += [(row, 0, state.room[link]) for link, row in load.items()]
    return _solved(rows, len(x) + len(chosen), seconds)


def _solved(rows: list[tuple[Row, float, float]], variables: int, seconds: float) -> bool | None:
    row, column, value = zip(
        *((i, c, v) for i, (terms, _, _) in enumerate(rows) for c, v in terms.items()), strict=True
    )
    matrix = csr_matrix((value, (row, column)), shape=(len(rows), variables))
    result = milp(
        np.zeros(variables),
        integrality=np.ones(variables),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, [low for _, low, _ in rows], [h for _, _, h in rows]),
        options={"time_limit": seconds},
    )
    if result.x is not None:
        return True
    return False if result.status == 2 else None


def _paths(
    torus: Torus, state: Occupancy, start: int, hops: int, fibres: int
) -> Iterator[tuple[int, ...]]:
    """Yield all simple paths from a server to other free ones over links with room."""
    stack = [(start,)]
    while stack:
        path = stack.pop()
        if len(path) > 1 and path[-1] in state.free:
            yield path
        if len(path) <= hops:
            stack += [
                (*path, there)
                for there, link in torus.neighbours[path[-1]]
                if there not in path and state.room[link] >= fibres
            ]
