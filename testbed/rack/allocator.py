"""Place slices on free servers of a rack, with their bundles on fibres with capacity.

After Morphlux, section 5.2 and algorithm 1: every slot gets a server of its own, every slot edge
one path for its bundle, and the load of the most loaded link is minimised. Unlike there, a link
carries no more than its fibres, and all paths are considered, not K for each pair of servers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import gcd

from testbed.rack.check import checked
from testbed.rack.complete import GivenUp, complete_search
from testbed.rack.contiguous import contiguous
from testbed.rack.exact import solve
from testbed.rack.search import Request, search
from testbed.rack.slices import Occupancy, Refusal, Slice
from testbed.rack.torus import Shape, SlotGraph, Torus, slot_graph

ATTEMPTS = 12
"""Attempts of the greedy search, 0.3 ms each for 8 slots, before all places are searched."""
NODES = 50_000
"""Nodes of the complete search before HiGHS is asked; racks of 16 servers took up to 10 000."""


def allocate(torus: Torus, state: Occupancy, shape: Shape, seed: int = 0) -> Slice | Refusal:
    """Return a place for a slice of `shape` chips: an aligned block, or else any free servers.

    Raise ValueError for a shape that no rack of this kind can have.
    """
    return contiguous(torus, state, shape) or fragmented(torus, state, shape, seed)


def fragmented(torus: Torus, state: Occupancy, shape: Shape, seed: int = 0) -> Slice | Refusal:
    """Return a place on any free servers that minimises the load of the most loaded link.

    The same seed gives the same place. Every place is verified by the independent check.
    """
    found = place_graph(torus, slot_graph(torus, shape), state, seed)
    return found if isinstance(found, Refusal) else checked(torus, state, found)


def place_graph(torus: Torus, graph: SlotGraph, state: Occupancy, seed: int = 0) -> Slice | Refusal:
    """Return a place for any slots and bundles, as `fragmented` does, without that check."""
    reason = _impossible(torus, graph, state)
    if reason:
        return Refusal(reason, proved=True)
    rng = random.Random(seed)
    try:
        for asked in _requests(torus, graph, state):
            found = search(asked, rng, ATTEMPTS) or complete_search(asked, NODES)
            if found is not None:
                return found
    except GivenUp:
        return _solved(torus, graph, state)
    return Refusal(
        "no free servers have enough free fibres between them for the bundles", proved=True
    )


def _solved(torus: Torus, graph: SlotGraph, state: Occupancy) -> Slice | Refusal:
    place, proved = solve(torus, graph, state)
    if place is not None:
        return place
    return Refusal(
        "no place was found with enough free fibres for the bundles between servers", proved
    )


def _impossible(torus: Torus, graph: SlotGraph, state: Occupancy) -> str | None:
    """Return why counting servers and the fibres at each of them rules a place out, if it does."""
    if len(state.free) < graph.slots:
        return f"{len(state.free)} servers are free for {graph.slots} slots"
    needs = [0] * graph.slots
    for (a, b), fibres in graph.edges.items():
        needs[a] += fibres
        needs[b] += fibres
    bundle = _thinnest(graph)
    room = [
        sum(state.room[link] // bundle * bundle for _, link in torus.neighbours[server])
        for server in state.free
    ]
    for need in sorted(set(needs)):
        bearing, slots = sum(r >= need for r in room), sum(n >= need for n in needs)
        if bearing < slots:
            return (
                f"{bearing} free servers have {need} fibres left for {slots} slots that need them"
            )
    return None


def _thinnest(graph: SlotGraph) -> int:
    """Return the fibres of which every bundle has a multiple; fewer on a link carry nothing."""
    return gcd(*(fibres for _, fibres in graph.bundles)) or 1


def _requests(torus: Torus, graph: SlotGraph, state: Occupancy) -> Iterator[Request]:
    """Yield the request with more and more of each link's fibres, from the fewest that can do."""
    carried = [whole - left for whole, left in zip(torus.links.values(), state.room, strict=True)]
    bundle = _thinnest(graph)
    fewest = max([*carried, *(fibres for _, fibres in graph.bundles)], default=0)
    before = None
    for limit in range(fewest, max(torus.links.values(), default=0) + 1):
        room = tuple(
            max(0, min(left, limit - used)) // bundle * bundle
            for left, used in zip(state.room, carried, strict=True)
        )
        if room != before:
            yield Request(torus, graph, state.free, room)
        before = room
