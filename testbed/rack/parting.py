"""The sets of servers that part the free ones, and what each must exchange, wherever slots are put.

Of the slots that are not placed yet, as many are in a set as its free servers and those outside let
be. The least that can then be cut of the slot graph is in a table: it is known before the slots are
placed, so that a branch ends early (a bisection bound for every set at once).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from testbed.rack.cuts import Cuts
from testbed.rack.search import Request
from testbed.rack.symmetry import in_connection
from testbed.rack.torus import Link, SlotGraph

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_NEVER = 1 << 20


class Sides(NamedTuple):
    """For each set, which of the placed slots are in it, as bits, and how many free servers are."""

    slots: Array
    free: Array


class PartingSets:
    """Sets that part the free servers of a request in different ways, each with its fewest fibres.

    A set and its complement part them alike, so the first free server is in none.
    """

    def __init__(self, cuts: Cuts, asked: Request, slack: Array) -> None:
        """Take the fibres that lead out of every set."""
        import numpy as np

        servers = sorted(asked.free)
        self._row = {server: row for row, server in enumerate(servers)}
        sides = np.stack([cuts.separates(servers[0], server) for server in servers])
        order, begins = _by_way(sides, slack)
        least = order[begins]
        least = least[slack[least] < sum(asked.graph.edges.values())]  # others hold everything
        self._sides, self._slack = sides[:, least].astype(np.intp), slack[least]
        self._tables = least_cuts(asked.graph)
        self._slots = asked.graph.slots

    def begin(self) -> Sides:
        """Return the sides before any slot is placed."""
        free = self._sides.sum(axis=0)
        return Sides(0 * free, free)

    def after(self, sides: Sides, placed: int, servers: Sequence[int]) -> list[Sides | None]:
        """Return the sides with the next slot on each server; None where some cut lacks fibres."""
        import numpy as np

        if not servers:
            return []
        here = self._sides[[self._row[server] for server in servers]]
        slots, free = sides.slots | here << placed, sides.free - here
        left, open_slots = len(self._row) - placed - 1, self._slots - placed - 1
        fewest = np.maximum(0, open_slots - left + free)
        most = np.minimum(open_slots, free)
        width = open_slots + 1
        needed = self._tables[placed + 1].take((slots * width + fewest) * width + most)
        fits = (needed <= self._slack).all(axis=1).tolist()
        rows = zip(fits, slots, free, strict=True)
        return [Sides(*sides) if fit else None for fit, *sides in rows]


def _by_way(sides: Array, slack: Array) -> tuple[Array, Array]:
    """Return the sets in the order of the ways in which they part servers, and where each begins.

    Of a way, the set with the fewest fibres is first. What has all servers on one side is left out.
    """
    import numpy as np

    way = np.zeros(slack.shape, np.uint32)
    for place, side in enumerate(sides):
        way |= side.astype(np.uint32) << np.uint32(place)
    order = np.lexsort((slack, way))
    ways, begins = np.unique(way[order], return_index=True)
    return order, begins[ways > 0]


def least_cuts(graph: SlotGraph) -> tuple[Array, ...]:
    """Return for each number of placed slots the fibres that a set of servers must cut at least.

    Each is a flat table, by which of the placed slots are in the set, as bits in their order, and
    by how many of the others are in it at least and at most.
    """
    return _least_cuts(graph.slots, tuple(graph.edges.items()))


@lru_cache(maxsize=64)
def _least_cuts(slots: int, edges: tuple[tuple[Link, int], ...]) -> tuple[Array, ...]:
    import numpy as np

    place = {slot: bit for bit, slot in enumerate(in_connection(slots, dict(edges)))}
    sets = np.arange(1 << slots)
    least = np.zeros((len(sets), 1), np.int32)
    for (a, b), fibres in edges:
        least[:, 0] += fibres * (((sets >> place[a]) ^ (sets >> place[b])) & 1)
    tables = [least.reshape(-1)]
    for placed in reversed(range(slots)):
        out, inside = least[: 1 << placed], least[1 << placed :]
        least = np.full((len(out), slots - placed + 1), _NEVER, np.int32)
        least[:, :-1] = out
        least[:, 1:] = np.minimum(least[:, 1:], inside)
        tables.append(_over_ranges(least).reshape(-1))
    return tuple(reversed(tables))


def _over_ranges(least: Array) -> Array:
    """Return the least from every first to every last column; for no column, what never fits."""
    import numpy as np

    width = least.shape[1]
    found = np.full((len(least), width, width), _NEVER, np.int32)
    for first in range(width):
        found[:, first, first:] = np.minimum.accumulate(least[:, first:], axis=1)
    return found
