"""Symmetries (automorphisms) of slot graphs and racks, which keep edges and their fibres."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from testbed.rack.torus import Link, SlotGraph

Map = tuple[int, ...]
"""The image of each node."""

_SLOTS = 16
"""Slots up to which symmetry is looked for; beyond, finding it takes longer than it saves."""


def in_connection(nodes: int, edges: Mapping[Link, int]) -> list[int]:
    """Return the nodes in an order where each has as many earlier neighbours as possible."""
    order, left = [0], set(range(1, nodes))
    near: dict[int, set[int]] = {node: set() for node in range(nodes)}
    for a, b in edges:
        near[a].add(b)
        near[b].add(a)
    while left:
        order.append(max(left, key=lambda node: (len(near[node] - left), -node)))
        left.remove(order[-1])
    return order


def automorphisms(nodes: int, edges: Mapping[Link, int]) -> Iterator[Map]:
    """Yield all automorphisms of a graph, including the identity."""
    order = in_connection(nodes, edges)

    def fibres(a: int, b: int) -> int:
        return edges.get((min(a, b), max(a, b)), 0)

    def extended(image: dict[int, int]) -> Iterator[Map]:
        if len(image) == nodes:
            yield tuple(image[node] for node in range(nodes))
            return
        node = order[len(image)]
        for to in sorted(set(range(nodes)) - set(image.values())):
            if all(fibres(node, old) == fibres(to, new) for old, new in image.items()):
                yield from extended({**image, node: to})

    return extended({})


def slots_below(graph: SlotGraph) -> tuple[Sequence[int], ...]:
    """Return for each slot the slots whose servers may be required to have lower numbers.

    Of the places that symmetries of the slot graph map to one another, exactly one fulfils this:
    each slot in turn has the lowest server of its orbit, under the symmetries that fix all before
    it (stabiliser chain).
    """
    return _below(graph.slots, tuple(graph.edges.items()))


@lru_cache(maxsize=64)
def _below(slots: int, edges: tuple[tuple[Link, int], ...]) -> tuple[Sequence[int], ...]:
    below: tuple[list[int], ...] = tuple([] for _ in range(slots))
    if slots > _SLOTS:
        return below
    fibres = dict(edges)
    group = list(automorphisms(slots, fibres))
    for slot in in_connection(slots, fibres):
        for image in {each[slot] for each in group} - {slot}:
            below[image].append(slot)
        group = [each for each in group if each[slot] == slot]
    return below
