"""Replace a failed chip of a slice by a spare of the same rack, and re-route its circuits.

As Morphlux's fault manager (section 5.3): for every neighbour of the failed chip in the slice, the
circuit to it is torn down and one to the spare is set up. No other circuit of the slice changes,
and none of other slices. One circuit is one fibre on each link of its route.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from testbed.rack.slices import Refusal, Route, Slice
from testbed.rack.torus import (
    Shape,
    Torus,
    chip_links,
    chip_of,
    coordinates,
    server_at,
    server_of,
    slot_graph,
)
from testbed.rack.unit_flow import routes_to


@dataclass(frozen=True, slots=True)
class Circuit:
    """A circuit between two chips of a slice, given by position, over servers of the rack."""

    ends: tuple[int, int]
    route: Route


@dataclass(frozen=True, slots=True)
class Wiring:
    """A slice chip by chip: the chip at each position, and the circuits between servers.

    Positions and chips are numbered in lexicographic order, in the slice and in the rack.
    Neighbours in one server need no circuit.
    """

    shape: Shape
    chips: tuple[int, ...]
    circuits: tuple[Circuit, ...]


@dataclass(frozen=True, slots=True)
class Replacement:
    """The changes of a replacement, and the wiring after it."""

    wiring: Wiring
    failed: int
    spare: int
    removed: tuple[Circuit, ...]
    added: tuple[Circuit, ...]


def wired(torus: Torus, of: Slice) -> Wiring:
    """Return the chips and circuits of a slice as it was allocated."""
    paths = dict(zip(slot_graph(torus, of.shape).edges, of.paths, strict=True))
    positions = coordinates(of.shape)
    chips = tuple(
        chip_of(torus, of.servers[server_at(torus, of.shape, at)], at) for at in positions
    )
    circuits = []
    for a, b in _linked(torus, of.shape):
        slots = [server_at(torus, of.shape, positions[end]) for end in (a, b)]
        if slots[0] != slots[1]:
            path = paths[min(slots), max(slots)]
            circuits.append(Circuit((a, b), path if slots[0] < slots[1] else path[::-1]))
    return Wiring(of.shape, chips, tuple(circuits) * torus.fibres)


def fibres_left(torus: Torus, wirings: Iterable[Wiring]) -> tuple[int, ...]:
    """Return the number of free fibres on each link, beside the given slices."""
    used = _fibres(torus, (circuit for each in wirings for circuit in each.circuits))
    return tuple(fibres - used[number] for number, fibres in enumerate(torus.links.values()))


def replace_chip(
    torus: Torus, wiring: Wiring, failed: int, spares: Collection[int], room: Sequence[int]
) -> Replacement | Refusal:
    """Return the slice with one of `spares` in place of a failed chip, or why there is none.

    `room` is the number of free fibres on each link. The spare's server is the nearest to the
    neighbours with enough free fibres; a refusal is proved by maximum flow. Raise ValueError when
    the slice does not have the chip.
    """
    if failed not in wiring.chips:
        raise ValueError(f"chip {failed} is not in the slice")
    place = wiring.chips.index(failed)
    peers = [b if a == place else a for a, b in _linked(torus, wiring.shape) if place in (a, b)]
    peers *= torus.fibres
    removed = tuple(circuit for circuit in wiring.circuits if place in circuit.ends)
    freed = _fibres(torus, removed)
    left = [fibres + freed[number] for number, fibres in enumerate(room)]
    servers = [server_of(torus, wiring.chips[peer]) for peer in peers]
    one_each = {server_of(torus, spare): spare for spare in sorted(spares, reverse=True)}
    for spare in (one_each[server] for server in nearest_first(torus, servers, one_each)):
        routes = routes_to(torus, server_of(torus, spare), servers, left)
        if routes is not None:
            added = tuple(
                Circuit((peer, place), route)
                for peer, route in zip(peers, routes, strict=True)
                if len(route) > 1
            )
            return _replaced(wiring, place, spare, removed, added)
    return Refusal(
        f"no spare of {len(spares)} has fibres left to the neighbours of chip {failed}", True
    )


def _replaced(
    wiring: Wiring, place: int, spare: int, removed: tuple[Circuit, ...], added: tuple[Circuit, ...]
) -> Replacement:
    chips = (*wiring.chips[:place], spare, *wiring.chips[place + 1 :])
    kept = tuple(circuit for circuit in wiring.circuits if place not in circuit.ends)
    after = replace(wiring, chips=chips, circuits=kept + added)
    return Replacement(after, wiring.chips[place], spare, removed, added)


def _linked(torus: Torus, shape: Shape) -> list[tuple[int, int]]:
    """Return the positions of neighbouring chips of a slice, once for each link between them."""
    number = {at: index for index, at in enumerate(coordinates(shape))}
    return [(number[a], number[b]) for a, b in chip_links(torus, shape)]


def _fibres(torus: Torus, circuits: Iterable[Circuit]) -> Counter[int]:
    return Counter(
        torus.link_numbers[min(a, b), max(a, b)]
        for circuit in circuits
        for a, b in pairwise(circuit.route)
    )


def nearest_first(torus: Torus, servers: Sequence[int], spares: Collection[int]) -> list[int]:
    """Return servers with a spare, those nearest to all of `servers` first."""

    def hops(server: int) -> int:
        return sum(_hops(torus, server, other) for other in servers)

    return sorted(spares, key=lambda server: (hops(server), server))


def _hops(torus: Torus, a: int, b: int) -> int:
    """Return how many links apart two servers are in an empty rack."""
    apart = zip(torus.servers[a], torus.servers[b], torus.grid, strict=True)
    return sum(min(abs(i - j), size - abs(i - j)) for i, j, size in apart)
