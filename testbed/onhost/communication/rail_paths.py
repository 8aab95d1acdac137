"""By which fabric port of its host a rank on rails reaches another, over circuits that are lit."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import Refused
from .handshake import Address
from .sockets import Port
from .stages import Stage


@dataclass(frozen=True)
class RailPorts:
    """The fabric ports of a rank on rails, and the listening socket on each."""

    ports: Sequence[Port]
    listeners: Sequence[socket.socket]
    beside: Sequence[RailPorts] = ()
    """Those of each rank of the host, in their order: over these a rank may be forwarded."""


def paths(
    links: Sequence[tuple[Sequence[int], Sequence[int]]],
    ports: RailPorts,
    reports: Mapping[int, Mapping[str, Any]],
    rank: int,
) -> dict[int, tuple[Port, Address]]:
    """Return by which port a rank reaches each other that circuits join it with, and where.

    Of several circuits to one rank it is the first.
    """
    found: dict[int, tuple[Port, Address]] = {}
    for link in links:
        for (own, port), (other, far) in (link, link[::-1]):
            if own == rank and other not in found:
                found[other] = ports.ports[port], tuple(reports[other]["own"][far])
    return found


def forwarded_path(
    links: Sequence[tuple[Sequence[int], Sequence[int]]],
    ports: RailPorts,
    reports: Mapping[int, Mapping[str, Any]],
    rank: int,
    stage: Stage,
) -> tuple[RailPorts, dict[int, tuple[Port, Address]]]:
    """Return the ports of another rank of the host, and by which a rank reaches the one other.

    The circuits join ranks that are on the hosts of the stage's, and on one rail.
    """
    (other,) = (one for one in stage.ranks if one != rank)
    hosts = [reports[one]["host"] for one in range(len(reports))]
    for (own, port), (across, far) in (*links, *(link[::-1] for link in links)):
        if (hosts[own], hosts[across]) == (hosts[rank], hosts[other]):
            over = ports.beside[hosts[:own].count(hosts[own])]
            address = reports[other]["beside"][hosts[:across].count(hosts[across])][far]
            return over, {other: (over.ports[port], tuple(address))}
    raise Refused(f"no circuit that rank {rank} was told of leads to the host of rank {other}")
