"""The fibre plant of a lab, and the circuits in it that make the links of a topology."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from testbed.fabric.circuits import (
    Circuit,
    CrossConnect,
    HostPort,
    Matching,
    SwitchPort,
    Wiring,
    crossing,
    matching,
)
from testbed.fabric.links import End, Link
from testbed.fabric.topology import Ports

RankPorts = Sequence[Sequence[HostPort]]
"""The fabric ports of each rank, in the order in which topologies number them."""


class FibrePlant:
    """All fibres of host ports: to switches, and directly from one host port to another."""

    def __init__(self, wiring: Wiring, direct: Mapping[HostPort, HostPort] = {}) -> None:
        """Take the fibres; a direct one is listed once, from either of its ends.

        Raise ValueError for a switch port that is wired to two host ports, and for a host port
        that has a direct fibre and another one.
        """
        self.wiring = wiring
        self.far_ends = {**direct, **{far: near for near, far in direct.items()}}
        """Where the direct fibre of each port that has one leads."""
        wired: dict[SwitchPort, HostPort] = {}
        for port, fibres in wiring.items():
            for end in {fibres.tx, fibres.rx}:
                if end in wired:
                    raise ValueError(f"{end} is wired to {wired[end]} and to {port}")
                wired[end] = port
        used = set(wiring)
        for near, far in direct.items():
            for port in (near, far):
                if port in used:
                    raise ValueError(f"{port} has two fibres, one of them from {near} to {far}")
                used.add(port)


@dataclass(frozen=True, slots=True)
class MappedLinks:
    """The circuits that make links, and the cross-connects that each switch needs for them."""

    circuits: Matching
    cross_connects: Mapping[str, frozenset[CrossConnect]]
    """By switch; a switch that no circuit needs is left out."""
    direct: Matching
    """The circuits that need no switch: light goes over a fibre between two host ports."""


@dataclass(frozen=True, slots=True)
class MissingFibre:
    """A link that the fibres of a lab cannot make, with the reason."""

    link: Link
    reason: str

    def __str__(self) -> str:
        (a, p), (b, q) = self.link
        return f"rank {a} port {p} cannot be joined with rank {b} port {q}: {self.reason}"


class MissingFibres(ValueError):
    """Fibres are missing for some links; the message names the first, `missing` has all."""

    def __init__(self, missing: Sequence[MissingFibre]) -> None:
        others = f", and {len(missing) - 1} more links" if len(missing) > 1 else ""
        super().__init__(f"{missing[0]}{others}")
        self.missing = tuple(missing)


def rank_ports(
    hosts: Sequence[str], ports: Ports, ranks_per_host: int = 1
) -> tuple[tuple[HostPort, ...], ...]:
    """Return the ports of each rank; the ranks of a host share its ports evenly.

    Raise ValueError for a host whose ports its ranks cannot share evenly.
    """
    found: list[tuple[HostPort, ...]] = []
    for host in hosts:
        each, left = divmod(len(ports[host]), ranks_per_host)
        if left:
            raise ValueError(
                f"{host} has {len(ports[host])} fabric ports, which its {ranks_per_host} ranks "
                "cannot share evenly"
            )
        own = [HostPort(host, name) for name in ports[host]]
        found += [tuple(own[each * n : each * (n + 1)]) for n in range(ranks_per_host)]
    return tuple(found)


def ports_alike(
    hosts: Sequence[str], ports: Ports, count: int | None = None
) -> dict[str, tuple[str, ...]]:
    """Return `count` ports of each host, or as many as the host with the fewest has.

    They are the outermost ones: topologies lead from the last ports to successors, and from the
    first ones to predecessors. Raise ValueError for a host with fewer.
    """
    each = min((len(ports[host]) for host in hosts), default=0) if count is None else count
    found = {}
    for host in hosts:
        own = tuple(ports[host])
        if len(own) < each:
            raise ValueError(f"{host} has {len(own)} fabric ports, and {each} are needed")
        found[host] = own[: each - each // 2] + own[len(own) - each // 2 :]
    return found


def circuits_of_links(links: Iterable[Link], ports: RankPorts) -> Matching:
    """Return the circuits that make links, without checking the fibres.

    Raise ValueError for a rank or a port that does not exist, and for links that are no matching.
    """
    return matching(Circuit.between(*(_port(end, ports) for end in wanted)) for wanted in links)


def map_links(links: Iterable[Link], ports: RankPorts, plant: FibrePlant) -> MappedLinks:
    """Return the circuits that make links, and the cross-connects of each switch.

    No port is in two circuits, and no switch port in two cross-connects of one direction. The work
    is proportional to the number of links. Raise MissingFibres with every link that the fibres
    cannot make; ValueError for links that are no matching.
    """
    far_ends = plant.far_ends
    circuits, direct, missing = [], [], []
    crossed: defaultdict[str, set[CrossConnect]] = defaultdict(set)
    for wanted in sorted(links):
        try:
            one, other = (_port(end, ports) for end in wanted)
            if one in far_ends or other in far_ends:
                _check_direct(one, other, far_ends)
                direct.append(Circuit.between(one, other))
            else:
                for cross in (
                    crossing(one, other, plant.wiring),
                    crossing(other, one, plant.wiring),
                ):
                    crossed[cross.switch].add(cross)
            circuits.append(Circuit.between(one, other))
        except ValueError as error:
            missing.append(MissingFibre(wanted, str(error)))
    if missing:
        raise MissingFibres(missing)
    by_switch = {name: frozenset(crosses) for name, crosses in sorted(crossed.items())}
    return MappedLinks(matching(circuits), by_switch, frozenset(direct))


def _port(end: End, ports: RankPorts) -> HostPort:
    """Return the host port of a rank's port."""
    rank, number = end
    if not 0 <= rank < len(ports):
        raise ValueError(f"there is no rank {rank} among the {len(ports)} ranks")
    if not 0 <= number < len(ports[rank]):
        raise ValueError(f"rank {rank} has {len(ports[rank])} fabric ports, and no port {number}")
    return ports[rank][number]


def _check_direct(one: HostPort, other: HostPort, far_ends: Mapping[HostPort, HostPort]) -> None:
    """Check that a direct fibre joins two ports of which one has such a fibre."""
    for near, far in ((one, other), (other, one)):
        leads_to = far_ends.get(near)
        if leads_to is not None and leads_to != far:
            raise ValueError(f"the fibre of {near} leads to {leads_to} and not to {far}")
