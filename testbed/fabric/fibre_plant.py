"""The circuits over the fibres of a lab that make the links of a topology."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from testbed.fabric.circuits import Circuit, HostPort, Matching, Wiring, crossing, matching
from testbed.fabric.links import End, Link
from testbed.fabric.topology import Ports

RankPorts = Sequence[Sequence[HostPort]]
"""The fabric ports of each rank, in the order in which topologies number them."""


def rank_ports(hosts: Sequence[str], ports: Ports) -> tuple[tuple[HostPort, ...], ...]:
    """Return the ports of each rank, which has a host of its own."""
    return tuple(tuple(HostPort(host, name) for name in ports[host]) for host in hosts)


def own_ports(hosts: Sequence[str], ports: Ports, each: int) -> tuple[tuple[HostPort, ...], ...]:
    """Return the ports of each rank, where the ranks of a host, `each` so many, share its ports.

    Raise ValueError for a host whose ports its ranks cannot share evenly.
    """
    found: list[tuple[HostPort, ...]] = []
    for host, all_ports in zip(hosts, rank_ports(hosts, ports), strict=True):
        count, left = divmod(len(all_ports), each)
        if left:
            raise ValueError(
                f"{host} has {len(all_ports)} fabric ports, which its {each} ranks cannot share "
                "evenly"
            )
        found += [all_ports[rank * count : (rank + 1) * count] for rank in range(each)]
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
    return matching(Circuit.between(_port(one, ports), _port(other, ports)) for one, other in links)


def map_links(links: Iterable[Link], ports: RankPorts, wiring: Wiring) -> Matching:
    """Return the circuits that make links, having checked that the fibres of a lab can make them.

    The work is proportional to the number of links. Raise ValueError with the first link that the
    fibres cannot make and the number of the others, and for links that are no matching.
    """
    circuits, missing = [], []
    for wanted in sorted(links):
        try:
            one, other = (_port(end, ports) for end in wanted)
            for ends in ((one, other), (other, one)):
                crossing(*ends, wiring)
            circuits.append(Circuit.between(one, other))
        except ValueError as error:
            (a, p), (b, q) = wanted
            missing.append(f"rank {a} port {p} cannot be joined with rank {b} port {q}: {error}")
    if missing:
        others = f", and {len(missing) - 1} more links" if len(missing) > 1 else ""
        raise ValueError(f"{missing[0]}{others}")
    return matching(circuits)


def _port(end: End, ports: RankPorts) -> HostPort:
    """Return the host port of a rank's port."""
    rank, number = end
    if not 0 <= rank < len(ports):
        raise ValueError(f"there is no rank {rank} among the {len(ports)} ranks")
    if not 0 <= number < len(ports[rank]):
        raise ValueError(f"rank {rank} has {len(ports[rank])} fabric ports, and no port {number}")
    return ports[rank][number]
