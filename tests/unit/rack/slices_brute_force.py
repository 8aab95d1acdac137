"""Every assignment of slots to servers and every set of simple paths, tried one after the other."""

from __future__ import annotations

from functools import cache
from itertools import permutations

from testbed.rack.slices import Occupancy
from testbed.rack.torus import Shape, Torus, slot_graph


def fewest_fibres(torus: Torus, state: Occupancy, shape: Shape) -> int | None:
    """Return the most fibres on a link in the best place; None when there is no place."""
    carried = [whole - left for whole, left in zip(torus.links.values(), state.room, strict=True)]
    for limit in range(max(carried), max(torus.links.values()) + 1):
        room = tuple(
            max(0, min(left, limit - used)) for left, used in zip(state.room, carried, strict=True)
        )
        if _placeable(torus, state.free, room, shape):
            return limit
    return None


def _placeable(torus: Torus, free: frozenset[int], room: tuple[int, ...], shape: Shape) -> bool:
    graph = slot_graph(torus, shape)

    @cache
    def led(demands: tuple[tuple[int, int, int], ...], room: tuple[int, ...]) -> bool:
        if not demands:
            return True
        (start, end, fibres), rest = demands[0], demands[1:]

        def step(here: int, seen: frozenset[int], room: tuple[int, ...]) -> bool:
            if here == end:
                return led(rest, room)
            return any(
                step(there, seen | {there}, (*room[:link], room[link] - fibres, *room[link + 1 :]))
                for there, link in torus.neighbours[here]
                if room[link] >= fibres and there not in seen
            )

        return step(start, frozenset({start}), room)

    return any(
        led(tuple(sorted((at[a], at[b], w) for (a, b), w in graph.edges.items())), room)
        for at in permutations(sorted(free), graph.slots)
    )
