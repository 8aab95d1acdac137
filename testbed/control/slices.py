"""The slice of a job on a rack: which fibres between servers its circuits pass.

A server is a host with a switch of its own. Circuits to another server pass the switches between,
over fibres that no other circuit has (Morphlux, arXiv 2508.03674, section 5). Where a spare takes
the place of a host that failed, only the circuits of that host are made anew, on free fibres.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from testbed.fabric.circuits import Circuit, FibrePair, HostPort, Matching
from testbed.rack.replacement import nearest_first
from testbed.rack.slices import Route
from testbed.rack.torus import Torus
from testbed.rack.unit_flow import routes_to


@dataclass(frozen=True, slots=True)
class RackFibres:
    """The servers of a rack, and the fibres between their switches.

    `hosts` are the servers by number, `pairs` the fibres of each link of the torus, seen from its
    lower server to the higher one. `taken` are those that circuits of other jobs pass.
    """

    torus: Torus
    hosts: tuple[str, ...]
    pairs: tuple[tuple[FibrePair, ...], ...]
    taken: frozenset[FibrePair] = frozenset()

    def room(self, used: Iterable[FibrePair]) -> tuple[int, ...]:
        """Return how many fibre pairs of each link are free, beside `used` and `taken`."""
        gone = self.taken.union(used)
        return tuple(sum(pair not in gone for pair in link) for link in self.pairs)

    def server(self, host: str) -> int:
        """Return the number of a host."""
        return self.hosts.index(host)

    def free_pairs(self, here: int, there: int, used: Iterable[FibrePair]) -> Iterator[FibrePair]:
        """Yield the free fibres of a link between neighbours, seen from `here` to `there`."""
        gone = self.taken.union(used)
        link = self.torus.link_numbers[min(here, there), max(here, there)]
        for pair in self.pairs[link]:
            if pair not in gone:
                yield pair if here < there else pair.reversed


def fibres_of(circuits: Iterable[Circuit]) -> frozenset[FibrePair]:
    """Return the fibres between switches that circuits pass."""
    return frozenset(pair for circuit in circuits for pair in circuit.via)


def circuits_along(
    rack: RackFibres, routes: Iterable[tuple[Circuit, Route]], kept: Matching
) -> Matching:
    """Return circuits along routes of servers, from their first ends on, and those that are kept.

    Each takes the first free fibres of every link. Raise ValueError where a link has none.
    """
    circuits, used = set(kept), set(fibres_of(kept))
    for circuit, route in routes:
        via = []
        for here, there in pairwise(route):
            pair = next(rack.free_pairs(here, there, used), None)
            if pair is None:
                ends = f"{rack.hosts[here]} and {rack.hosts[there]}"
                raise ValueError(f"no fibre between {ends} is free for {circuit}")
            via.append(pair)
            used.add(pair)
        circuits.add(Circuit.between(*circuit.ends, via))
    return frozenset(circuits)


def joined_to_newcomer(
    rack: RackFibres, wanted: Matching, present: Matching, newcomer: str
) -> Matching | None:
    """Return wanted circuits with the fibres that they pass; None where too few are free.

    Those that are present stay on their fibres. All others end at the newcomer, or none is made.
    """
    by_ends = {circuit.ends: circuit for circuit in present}
    kept = frozenset(by_ends[circuit.ends] for circuit in wanted if circuit.ends in by_ends)
    new = sorted(circuit for circuit in wanted if circuit.ends not in by_ends)
    near, servers = rack.server(newcomer), []
    for circuit in new:
        if newcomer not in circuit.hosts:
            return None
        (far,) = circuit.hosts - {newcomer}
        servers.append(rack.server(far))
    routes = routes_to(rack.torus, near, servers, rack.room(fibres_of(kept)))
    if routes is None:
        return None
    ways = (
        (circuit, route if circuit.a.host != newcomer else route[::-1])
        for circuit, route in zip(new, routes, strict=True)
    )
    return circuits_along(rack, ways, kept)


def spares_in_order(
    rack: RackFibres, neighbours: Sequence[str], spares: Sequence[str]
) -> list[str]:
    """Return spares in the order of the fibres to a job's neighbours, the nearest first."""
    near = [rack.server(host) for host in neighbours]
    numbers = nearest_first(rack.torus, near, [rack.server(host) for host in spares])
    return [rack.hosts[number] for number in numbers]


def circuits_of_ranks(
    rack: RackFibres,
    circuits: Matching,
    hosts: Sequence[str],
    paths: Mapping[tuple[int, int], Sequence[Route]],
    beside: Matching,
) -> Matching:
    """Return the circuits of ranks on hosts with the fibres that they pass.

    `paths` are those of the circuits between two ranks, one each, from the lower rank to the
    higher; `beside` are circuits of other jobs.
    """
    rank = {host: number for number, host in enumerate(hosts)}
    left = {link: iter(routes) for link, routes in paths.items()}

    def route(a: HostPort, b: HostPort) -> Route:
        one, other = rank[a.host], rank[b.host]
        return next(left[one, other]) if one < other else next(left[other, one])[::-1]

    ways = ((circuit, route(*circuit.ends)) for circuit in sorted(circuits))
    return circuits_along(rack, ways, beside) - beside
