"""The systems to compare: how each places slices in racks, and the slices' bandwidth.

Each system is a `model`; the docstrings state its assumptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product

from testbed.rack.allocator import fragmented
from testbed.rack.bandwidth import fabric_rings, ideal_rings, most_static_rings, static_rings
from testbed.rack.contiguous import contiguous
from testbed.rack.slices import Occupancy, Slice, with_slice
from testbed.rack.torus import Shape, Torus, slot_graph

Place = Callable[[Torus, Occupancy, Shape], Occupancy | None]
"""Place a slice in one rack: what is left of the rack, or None."""


Rings = Callable[[Torus, Shape], float]
"""The bandwidth of a slice, in rings."""


@dataclass(frozen=True)
class System:
    """A system: its ways to place a slice, each tried on all racks in turn, and its bandwidth."""

    places: tuple[Place, ...]
    rings: Rings


def place_contiguous(torus: Torus, state: Occupancy, shape: Shape) -> Occupancy | None:
    """Place a slice on the first free aligned block."""
    found = contiguous(torus, state, shape)
    return with_slice(torus, state, found) if found else None


def place_fragmented(torus: Torus, state: Occupancy, shape: Shape) -> Occupancy | None:
    """Place a slice on any servers with enough free fibres between them."""
    found = fragmented(torus, state, shape)
    return with_slice(torus, state, found) if isinstance(found, Slice) else None


def place_product(torus: Torus, state: Occupancy, shape: Shape) -> Occupancy | None:
    """Place a slice as the BCube of SiPAC allows: on a product of server coordinates.

    Along an axis any two servers meet at one switch, so that slices need no adjacent servers; but
    they need a whole product of coordinates. Routing inside a BCube is not modelled.
    """
    for servers in _products(torus, shape):
        if state.free.issuperset(servers):
            return Occupancy(state.free.difference(servers), state.room)
    return None


def place_anywhere(torus: Torus, state: Occupancy, shape: Shape) -> Occupancy | None:
    """Place a slice on any free servers of a rack, as an ideal switch allows."""
    slots = slot_graph(torus, shape).slots
    if slots > len(state.free):
        return None
    return Occupancy(state.free.difference(sorted(state.free)[:slots]), state.room)


def _contended(share: float) -> Rings:
    def rings(torus: Torus, shape: Shape) -> float:
        return share * ideal_rings(torus, shape)

    return rings


SYSTEMS: Mapping[str, System] = {
    "static": System((place_contiguous,), static_rings),
    "static-most-rings": System((place_contiguous,), most_static_rings),
    "ici-30": System((place_contiguous,), _contended(0.30)),
    "ici-50": System((place_contiguous,), _contended(0.50)),
    "ici-75": System((place_contiguous,), _contended(0.75)),
    "sipac-like": System((place_product,), static_rings),
    "morphlux": System((place_contiguous, place_fragmented), fabric_rings),
    "ideal-switch": System((place_contiguous, place_anywhere), ideal_rings),
}
"""Morphlux and the ideal switch look for a block in any rack first, as the paper's allocator does:
they differ in the fibres only. The ICI systems use all ports of contiguous slices, and contention
leaves that share of the bandwidth: an assumption of the paper, not a measurement."""


def placed(
    torus: Torus, places: Sequence[Place], racks: Sequence[Occupancy], requests: Sequence[Shape]
) -> list[Shape]:
    """Return those requests that find a place, in their order.

    Each way to place a slice is tried on all racks before the next one is.
    """
    states = list(racks)
    refused: set[tuple[int, int, Shape]] = set()  # racks only get fuller: once refused, always

    def found(shape: Shape) -> bool:
        for way, place in enumerate(places):
            for rack, state in enumerate(states):
                if (way, rack, shape) not in refused:
                    left = place(torus, state, shape)
                    if left is not None:
                        states[rack] = left
                        return True
                    refused.add((way, rack, shape))
        return False

    return [shape for shape in requests if found(shape)]


@lru_cache
def _products(torus: Torus, shape: Shape) -> tuple[frozenset[int], ...]:
    """Return the servers of each product of coordinates with as many along each axis as a slice."""
    number = {at: index for index, at in enumerate(torus.servers)}
    slots = tuple(size // part for size, part in zip(shape, torus.server, strict=True))
    axes = (combinations(range(size), taken) for size, taken in zip(torus.grid, slots, strict=True))
    return tuple(
        frozenset(number[x, y, z] for x, y, z in product(*chosen)) for chosen in product(*axes)
    )
