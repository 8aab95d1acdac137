"""Slices as data, and what of a rack they leave free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from testbed.rack.torus import Shape, Torus, slot_graph

Route = tuple[int, ...]
"""The servers along a circuit, both ends included."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Where a slice is: the server of each slot, and the path of the bundle on each slot edge.

    Slots and their edges are in the order of `slot_graph`; the bundle of edge (a, b) leads from the
    server of slot a to that of slot b.
    """

    shape: Shape
    servers: tuple[int, ...]
    paths: tuple[Route, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no place, or no spare, and whether it is proved that there is none."""

    reason: str
    proved: bool


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What is left of a rack: free servers, and the fibres left on each link, by its number."""

    free: frozenset[int]
    room: tuple[int, ...]


def empty(torus: Torus) -> Occupancy:
    """Return a rack without slices."""
    return Occupancy(frozenset(range(len(torus.servers))), tuple(torus.links.values()))


def with_slice(torus: Torus, state: Occupancy, added: Slice) -> Occupancy:
    """Return what a further slice leaves free."""
    return Occupancy(state.free - set(added.servers), _less(torus, state.room, added, 1))


def without_slice(torus: Torus, state: Occupancy, removed: Slice) -> Occupancy:
    """Return what is free when a slice has gone."""
    return Occupancy(state.free | set(removed.servers), _less(torus, state.room, removed, -1))


def occupied_by(torus: Torus, slices: Iterable[Slice]) -> Occupancy:
    """Return what some slices leave free."""
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
