"""Slices as data, and the part of a rack that they leave free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from testbed.rack.torus import Shape, Torus, slot_graph

Route = tuple[int, ...]
"""The servers along a circuit, both ends included."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The place of a slice: the server of each slot, and the path of the bundle on each slot edge.

    Slots and their edges are in the order of `slot_graph`; the bundle of edge (a, b) leads from the
    server of slot a to that of slot b.
    """

    shape: Shape
    servers: tuple[int, ...]
    paths: tuple[Route, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why there is no place, or no spare, and whether that is proved."""

    reason: str
    proved: bool


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The free part of a rack: free servers, and the free fibres on each link, by number."""

    free: frozenset[int]
    room: tuple[int, ...]


def empty(torus: Torus) -> Occupancy:
    """Return a rack without slices: all servers and fibres are free."""
    return Occupancy(frozenset(range(len(torus.servers))), tuple(torus.links.values()))


def with_slice(torus: Torus, state: Occupancy, added: Slice) -> Occupancy:
    """Return the free part of a rack after a slice was added."""
    return Occupancy(state.free - set(added.servers), _less(torus, state.room, added, 1))


def without_slice(torus: Torus, state: Occupancy, removed: Slice) -> Occupancy:
    """Return the free part of a rack after a slice was removed."""
    return Occupancy(state.free | set(removed.servers), _less(torus, state.room, removed, -1))


def occupied_by(torus: Torus, slices: Iterable[Slice]) -> Occupancy:
    """Return the free part of a rack with the given slices."""
    state = empty(torus)
    for each in slices:
        state = with_slice(torus, state, each)
    return state


def _less(torus: Torus, room: tuple[int, ...], of: Slice, sign: int) -> tuple[int, ...]:
    left = list(room)
    edges = slot_graph(torus, of.shape).edges
    for path, fibres in zip(of.paths, edges.values(), strict=True):
        for a, b in pairwise(path):
            left[torus.link_numbers[min(a, b), max(a, b)]] -= sign * fibres
    return tuple(left)
