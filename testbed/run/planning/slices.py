"""Slices: jobs on a rack, whose circuits pass the switches of several servers. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from testbed.control.slices import RackFibres, circuits_of_ranks, fibres_of, joined_to_newcomer
from testbed.fabric.circuits import FibrePair, Matching
from testbed.fabric.links import Link
from testbed.fabric.topology import Ports, ring
from testbed.rack.slices import Occupancy, Refusal
from testbed.rack.slices_of_ranks import place_ranks, route_ranks, rows
from testbed.schema import Lab, usable_fibres


def rack_of(lab: Lab) -> RackFibres | None:
    """Return the servers of a lab that is a rack, and the fibres between them; else None."""
    if lab.rack is None:
        return None
    number = {host: number for number, host in enumerate(lab.hosts)}
    at = {fibres.tx.switch: number[port.host] for port, fibres in lab.wiring().items()}
    torus = lab.rack.torus()

    def link(pair: FibrePair) -> tuple[int, int]:
        near, far = at[pair.near.tx.switch], at[pair.far.tx.switch]
        return min(near, far), max(near, far)

    pairs: list[list[FibrePair]] = [[] for _ in torus.links]
    for pair in usable_fibres(lab):
        upwards = at[pair.near.tx.switch] < at[pair.far.tx.switch]
        pairs[torus.link_numbers[link(pair)]].append(pair if upwards else pair.reversed)
    there = Counter(map(link, lab.fibre_pairs().values()))
    fibres = min((there[each] // times for each, times in torus.links.items()), default=1)
    return RackFibres(lab.rack.torus(fibres), tuple(lab.hosts), tuple(map(tuple, pairs)))


def hosts_of_slice(
    rack: RackFibres, ranks: int, links: Iterable[Link], free: Collection[str], beside: Matching
) -> tuple[str, ...]:
    """Return a host for each rank, with free fibres for its circuits beside those of other jobs.

    Raise ValueError where there are none.
    """
    state = Occupancy(frozenset(map(rack.server, free)), rack.room(fibres_of(beside)))
    found = place_ranks(rack.torus, ranks, _circuits_between(links), state)
    if isinstance(found, Refusal):
        raise ValueError(_text_of(found))
    return tuple(rack.hosts[server] for server in found.servers)


def circuits_of_slice(
    rack: RackFibres,
    hosts: Sequence[str],
    links: Iterable[Link],
    circuits: Matching,
    beside: Matching,
) -> Matching:
    """Return the circuits of ranks on hosts with the fibres that they pass.

    Raise ValueError where too few are free beside circuits of other jobs.
    """
    servers, room = [rack.server(host) for host in hosts], rack.room(fibres_of(beside))
    found = route_ranks(rack.torus, servers, _circuits_between(links), room)
    if isinstance(found, Refusal):
        raise ValueError(_text_of(found))
    return circuits_of_ranks(rack, circuits, hosts, found.paths, beside)


def spares_of_slice(
    rack: RackFibres,
    hosts: Sequence[str],
    ports: Ports,
    circuits: Matching,
    free: Sequence[str],
    count: int,
    beside: Matching,
) -> tuple[str, ...]:
    """Return `count` free hosts that fibres join to the neighbours of most ranks.

    Of these come first those in the fewest free rows of as many servers as the slice has, then the
    last of the rack: so rows stay free for other slices.
    """
    numbers = {*map(rack.server, free)}
    whole = [row for row in rows(rack.torus, len(hosts)) if numbers.issuperset(row)]

    def rows_broken(spare: str) -> int:
        return sum(rack.server(spare) in row for row in whole)

    def order(spare: str) -> tuple[int, int, int]:
        places = places_of_spare(rack, hosts, ports, circuits, spare, beside)
        return -places, rows_broken(spare), -rack.server(spare)

    return tuple(sorted(free, key=order)[:count])


def places_of_spare(
    rack: RackFibres,
    hosts: Sequence[str],
    ports: Ports,
    circuits: Matching,
    spare: str,
    beside: Matching,
) -> int:
    """Return the number of ranks of a ring to whose neighbours free fibres lead from a spare."""
    beside_it, places = replace(rack, taken=fibres_of(beside)), range(len(hosts))
    rings = (ring((*hosts[:n], spare, *hosts[n + 1 :]), ports) for n in places)
    return sum(joined_to_newcomer(beside_it, one, circuits, spare) is not None for one in rings)


def _circuits_between(links: Iterable[Link]) -> Counter[tuple[int, int]]:
    """Return the number of circuits between each two ranks, the lower one first."""
    return Counter((min(a, b), max(a, b)) for (a, _), (b, _) in links)


def _text_of(refusal: Refusal) -> str:
    return refusal.reason if refusal.proved else f"{refusal.reason}, as far as was searched"
