"""Cuts of a rack: sets of servers, and the pairs of servers that each set separates.

Demands between servers can only be met when no set of servers must exchange more fibres with the
others than lead out of it. Sets that are not connected, or whose complement is not, add no
constraint to those of their components; the others are few enough in a rack of 16 servers (10 056)
to check all of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from testbed.rack.torus import Torus

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

ALL_SETS = 16
"""Servers up to which every set is looked at; beyond, single servers and pairs of neighbours."""


class Cuts:
    """The sets of servers of a rack as arrays, with one element per set."""

    def __init__(self, torus: Torus) -> None:
        self._sides = _sides(torus)
        self._pairs: dict[tuple[int, int], Array] = {}

    def separates(self, a: int, b: int) -> Array:
        """Return 1 for each set that has exactly one of two servers, 0 for the others."""
        found = self._pairs.get((a, b))
        if found is None:
            found = self._pairs[a, b] = self._sides[a] ^ self._sides[b]
        return found


@lru_cache(maxsize=8)
def cuts(torus: Torus) -> Cuts:
    """Return the connected sets of a rack's servers with connected complements."""
    return Cuts(torus)


def _sides(torus: Torus) -> list[Array]:
    """Return for each server an array that tells of each set whether it has the server."""
    import numpy as np

    servers = range(len(torus.servers))
    if len(servers) > ALL_SETS:
        few = [{server} for server in servers] + [set(link) for link in torus.links]
        return [np.array([server in each for each in few], dtype=np.int16) for server in servers]
    # A set and its complement are the same cut: the last server is never in the set.
    sets = np.arange(1, max(2, 1 << (len(servers) - 1)), dtype=np.uint32)
    whole = np.uint32((1 << len(servers)) - 1)
    sets = sets[_connected(torus, sets) & _connected(torus, whole - sets)]
    return [((sets >> server) & 1).astype(np.int16) for server in servers]


def _connected(torus: Torus, sets: Array) -> Array:
    """Return which sets, as bits, are connected by links inside them."""
    reached = sets & (~sets + 1)  # the lowest bit
    while True:
        before = reached
        for a, b in torus.links:
            reached = reached | ((((reached >> a) & 1) << b | ((reached >> b) & 1) << a) & sets)
        if (before == reached).all():
            connected: Array = reached == sets
            return connected
