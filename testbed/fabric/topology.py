"""The ring of hosts, in which a recovery puts a spare into the place of its victim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from testbed.fabric.circuits import Circuit, HostPort, Matching, matching

Ports = Mapping[str, Sequence[str]]
"""The fabric ports of each host, in the order of the lab file."""


def ring(hosts: Sequence[str], ports: Ports) -> Matching:
    """Return the ring of hosts: the last port of each goes to the first port of the next.

    Two hosts with two ports each get two circuits; a ring of fewer than two hosts has none, nor has
    one of hosts without ports, which a packet switch joins. Raise ValueError when a host of the
    ring has fewer than two ports.
    """
    if len(hosts) < 2 or not any(ports[host] for host in hosts):
        return frozenset()
    for host in hosts:
        if len(ports[host]) < 2:
            raise ValueError(
                f"a ring needs two fabric ports on {host}, which has {len(ports[host])}"
            )
    return matching(
        Circuit.between(HostPort(host, ports[host][-1]), HostPort(after, ports[after][0]))
        for host, after in zip(hosts, (*hosts[1:], hosts[0]), strict=True)
    )
