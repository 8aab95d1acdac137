"""Racks in random states, for tests and benchmarks of allocators."""

from __future__ import annotations

import random

from testbed.rack.allocator import allocate
from testbed.rack.search import Request, search
from testbed.rack.slices import Occupancy, Slice, empty, with_slice, without_slice
from testbed.rack.torus import Shape, Torus, slot_graph

SMALL: tuple[Shape, ...] = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4))
EIGHT_SLOTS: Shape = (2, 4, 4)


def random_rack(torus: Torus, rng: random.Random, free: int = 8) -> tuple[Occupancy, list[Slice]]:
    """Return a rack that was filled with random slices, some of which have gone again.

    A random share of the slices is scattered over random servers with whatever paths there are; the
    others are where the allocator puts them. At least `free` servers are free in the end.
    """
    scattered = rng.random()
    state, slices, misses = empty(torus), [], 0
    while misses < 4:
        shape = rng.choice(SMALL)
        added = _scattered if rng.random() < scattered else _allocated
        found = added(torus, state, shape, rng)
        misses += found is None
        if found:
            state = with_slice(torus, state, found)
            slices.append(found)
    while len(state.free) < free:
        state = without_slice(torus, state, slices.pop(rng.randrange(len(slices))))
    return state, slices


def random_room(torus: Torus, rng: random.Random, free: int, share: float) -> Occupancy:
    """Return some free servers, and random fibres left on a share of the links."""
    servers = rng.sample(range(len(torus.servers)), free)
    room = [
        rng.randint(1, fibres) if rng.random() < share / 2 else fibres * (rng.random() < share)
        for fibres in torus.links.values()
    ]
    return Occupancy(frozenset(servers), tuple(room))


def _allocated(torus: Torus, state: Occupancy, shape: Shape, rng: random.Random) -> Slice | None:
    found = allocate(torus, state, shape, rng.randrange(1 << 30))
    return found if isinstance(found, Slice) else None


def _scattered(torus: Torus, state: Occupancy, shape: Shape, rng: random.Random) -> Slice | None:
    graph = slot_graph(torus, shape)
    if len(state.free) < graph.slots:
        return None
    servers = frozenset(rng.sample(sorted(state.free), graph.slots))
    return search(Request(torus, graph, servers, state.room), rng, 3)
