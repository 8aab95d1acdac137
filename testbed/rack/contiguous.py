"""Slices as aligned blocks, as a static torus needs them, and the fragmentation of a rack."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.rack.check import checked
from testbed.rack.slices import Occupancy, Slice
from testbed.rack.torus import Shape, Torus, blocks, slot_graph

SHAPES: tuple[Shape, ...] = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4), (4, 4, 4))
"""The slices that the authors' code knows, in chips: 4, 8, 16, 32 and 64 of them."""


def contiguous(torus: Torus, state: Occupancy, shape: Shape) -> Slice | None:
    """Return the first free aligned block whose own fibres are free (Morphlux, section 5.1)."""
    for servers in blocks(torus, shape):
        if state.free.issuperset(servers):
            found = block(torus, shape, servers)
            if _has_room(torus, state, found):
                return checked(torus, state, found)
    return None


def block(torus: Torus, shape: Shape, servers: tuple[int, ...]) -> Slice:
    """Return a slice on servers that are adjacent as its slots are: no bundle is forwarded."""
    edges = slot_graph(torus, shape).edges
    return Slice(shape, servers, tuple((servers[a], servers[b]) for a, b in edges))


def largest_block(torus: Torus, free: frozenset[int], shapes: Iterable[Shape] = SHAPES) -> int:
    """Return the chips of the largest slice that has an aligned block among free servers."""
    sizes = (
        x * y * z
        for x, y, z in shapes
        if any(free.issuperset(servers) for servers in blocks(torus, (x, y, z)))
    )
    return max(sizes, default=0)


def fragmentation_index(
    torus: Torus, free: frozenset[int], shapes: Iterable[Shape] = SHAPES
) -> float:
    """Return 1 − S/T: S chips in the largest slice that has a block, T free chips.

    The index is 0 where the largest block has all free chips, and in a full rack. Morphlux, section
    3.2.
    """
    x, y, z = torus.server
    chips = len(free) * x * y * z
    return 1 - largest_block(torus, free, shapes) / chips if chips else 0.0


def _has_room(torus: Torus, state: Occupancy, found: Slice) -> bool:
    edges = slot_graph(torus, found.shape).edges
    return all(
        state.room[torus.link_numbers[min(path), max(path)]] >= fibres
        for path, fibres in zip(found.paths, edges.values(), strict=True)
    )
