"""The ring topology: circuits that join the ranks of a job, on the ports of their hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from testbed.fabric.circuits import Circuit, HostPort, Matching, matching

Ports = Mapping[str, Sequence[str]]
"""The fabric ports of each host, in the order of the lab file."""


def ring(hosts: Sequence[str], ports: Ports) -> Matching:
    """Return the ring of hosts: the last port of each goes to the first port of the next.

    Two hosts with two ports each get two circuits; a ring of fewer than two hosts has none. Raise
    ValueError when a host of the ring has fewer than two ports.
    """
    if len(hosts) < 2:
        return frozenset()
    for host in hosts:
        if len(ports[host]) < 2:
            raise ValueError(
                f"a ring needs two fabric ports on {host}, which has {len(ports[host])}"
            )
    return matching(Circuit.between(*ring_link(a, b, ports)) for a, b in neighbours(hosts))


def ring_link(host: str, successor: str, ports: Ports) -> tuple[HostPort, HostPort]:
    """Return the two ends of the circuit from a host to its successor on a ring, in this order."""
    return HostPort(host, ports[host][-1]), HostPort(successor, ports[successor][0])


def between_ranks(
    joints: Iterable[tuple[tuple[int, int], tuple[int, int]]], hosts: Sequence[str], ports: Ports
) -> Matching:
    """Return the circuits between hosts for joints between ranks; `hosts` are in rank order.

    A joint names a rank and its port at either end: 0 for a host's first port, 1 for its last.
    """
    return matching(
        Circuit.between(*(HostPort(hosts[rank], ports[hosts[rank]][-port]) for rank, port in ends))
        for ends in joints
    )


def neighbours(hosts: Sequence[str]) -> list[tuple[str, str]]:
    """Return each host with its successor on the ring."""
    return [(host, hosts[(i + 1) % len(hosts)]) for i, host in enumerate(hosts)]
