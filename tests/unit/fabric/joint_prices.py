"""A bound of the loss of all routes together, proved without the integer program.

Let each route pay a price at each joint that it comes to. Routes share no joint, so in any routing
each price is paid once at most, and the loss of all routes is at least what the cheapest routes
cost, each alone in the mesh, less all prices. This holds for any prices that are not negative, so
nothing need be believed of HiGHS, which proposes good ones: the dual values of a linear program.
The bound itself is a search of shortest paths in whole numbers.

Light comes from each even corner of a hexagon to an odd one and from each odd to an even, so that
all routes between two joints have an even number of cells, or all have an odd one: a bound that is
even where the total must be odd is one too low.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array

from testbed.fabric.mesh_graph import Graph
from testbed.fabric.mesh_router import Demand

UNIT = 10_080
"""What a cell costs; prices are whole numbers beside it, and 1 to 10 divide it."""


def priced_bound(graph: Graph, demands: Mapping[int, Demand], prices: Sequence[int]) -> int:
    """Return a number of cells that every routing passes at least; each demand has one goal."""
    odd = [joint.corner % 2 for joint in graph.joints]
    if min(prices) < 0 or any(
        arm.loss != 1 or odd[arm.one] == odd[arm.other] for arm in graph.arms
    ):
        raise ValueError("prices must not be negative, each loss 1, and each arm from even to odd")
    cheapest = [_cheapest(graph, demand, prices) for demand in demands.values()]
    bound = -((sum(prices) - sum(cheapest)) // UNIT)
    ends = [joint for demand in demands.values() for joint in (demand.start, *demand.goals)]
    return bound + (bound + sum(odd[joint] for joint in ends)) % 2


def _cheapest(graph: Graph, demand: Demand, prices: Sequence[int]) -> int:
    least = {2 * demand.start: 0}
    waiting = [(0, 2 * demand.start)]
    while waiting:
        cost, lane = heappop(waiting)
        if lane & 1 and lane >> 1 in demand.goals:
            return cost
        for there, _ in graph.onward[lane]:
            so_far = cost + UNIT + prices[there >> 1]
            if so_far < least.get(there, math.inf):
                least[there] = so_far
                heappush(waiting, (so_far, there))
    raise ValueError("a demand has no route even in an empty mesh")


def good_prices(graph: Graph, demands: Mapping[int, Demand]) -> list[int]:
    """Return a price for each joint, by which the bound is as good as that of linear programming.

    The program sends one unit of flow for each demand; all flows together are one at most at a
    joint. Each variable is the flow of a demand from one lane to the next.
    """
    rows: dict[tuple[int, int], int] = {}
    balance: list[tuple[int, int, int]] = []
    shared: list[tuple[int, int, int]] = []
    steps = [(lane, there) for lane, on in enumerate(graph.onward) for there, _ in on]
    wanted: dict[tuple[int, int], int] = defaultdict(int)
    for key, demand in demands.items():
        wanted[key, 2 * demand.start] = 1
        wanted[key, 2 * min(demand.goals) + 1] = -1
        for lane, there in steps:
            column = len(shared)
            balance.append((rows.setdefault((key, lane), len(rows)), column, 1))
            balance.append((rows.setdefault((key, there), len(rows)), column, -1))
            shared.append((there >> 1, column, 1))
    joints, columns = len(graph.joints), len(shared)
    found = linprog(
        np.ones(columns),
        A_ub=_matrix(shared, joints, columns),
        b_ub=np.ones(joints),
        A_eq=_matrix(balance, len(rows), columns),
        b_eq=[wanted[row] for row in rows],
    )
    return [max(0, round(-UNIT * dual)) for dual in found.ineqlin.marginals]


def _matrix(entries: Sequence[tuple[int, int, int]], rows: int, columns: int) -> csr_array:
    row, column, value = zip(*entries, strict=True)
    return coo_array((value, (row, column)), shape=(rows, columns)).tocsr()
