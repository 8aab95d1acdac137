"""The rails of a script's process: the line to its rank, and its operations in order."""

from __future__ import annotations

import atexit
import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Optional

from ..communication.connections import unacknowledged
from ..communication.rails import LONGEST_WAIT, OWN_STAGES, RailStages
from ..communication.script_line import RAILS, RailLine
from ..communication.sockets import Port
from ..communication.stages import Stage
from ..errors import PeerLost
from .operations import Operations

_LOOK_AGAIN = 100e-6

_LEAVING = 10.0
"""Seconds in which a process that ends leaves its last stage: others may need its circuits."""


class Rails:
    """The rails of this process: the line to its rank, and its operations in order."""

    def __init__(self, line: RailLine) -> None:
        told = line.greeting
        self.rank: int = told["rank"]
        self.generation: int = told["generation"]
        self.ports = [Port(**port) for port in told["ports"]]
        """Of its rank on fabrics, by number."""
        named: dict[str, list[int]] = told["groups"]
        self._groups = {frozenset(ranks): name for name, ranks in named.items()}
        self._in_pairs: Mapping[str, Sequence[Mapping[str, Any]]] = told["in_pairs"]
        self._hosts: list[str] = told["hosts"]
        self._addresses = [port.address for port in self.ports]
        self._stages = RailStages(line, told["generation"], OWN_STAGES)  # type: ignore[arg-type]
        self._connections: list[socket.socket] = []
        self.operations = Operations(self._stages, self._drain)

    def has_no_rail(self, ranks: Sequence[int]) -> bool:
        """Tell whether these are one rank, or all of the job that the mesh does not join."""
        is_all = len(ranks) == len(self._hosts)
        return len(ranks) == 1 or (is_all and frozenset(ranks) not in self._groups)

    def is_inside_a_host(self, ranks: Sequence[int]) -> bool:
        """Tell whether all of these ranks are on one host."""
        return len({self._hosts[rank] for rank in ranks}) == 1

    def name_of(self, ranks: Sequence[int]) -> str:
        """Return the name of a group; raise ValueError for ranks that are none of the mesh."""
        if name := self._groups.get(frozenset(ranks)):
            return name
        known = ", ".join(f"{name} {sorted(of)}" for of, name in self._groups.items())
        raise ValueError(
            f"ranks {sorted(ranks)} are no group of the job's mesh, for which circuits could be "
            f"had; write a `mesh` that has it in the job. Its groups are {known}"
        )

    def in_pairs(self, group: str) -> Optional[Mapping[str, Mapping[str, Any]]]:
        """Return the schedules of a group whose ranks meet in pairs only, by collective."""
        schedules = self._in_pairs.get(group)
        return None if schedules is None else {each["collective"]: each for each in schedules}

    def ends(self, stage: Stage) -> tuple[int, int]:
        """Return by which of its ports this rank is joined in a stage that is lit, and to which."""
        return next(
            (own, far)
            for link in self._stages.links(stage)
            for (rank, own), (_, far) in (link, link[::-1])
            if rank == self.rank
        )

    def address(self, port: int) -> str:
        """Return the address of one of its ports."""
        return self._addresses[port]

    def note_connections(self) -> None:
        """Note the connections over fabric ports, which must be empty before circuits go."""
        before, self._connections = self._connections, _connections(self._addresses)
        for connection in before:
            connection.close()

    def _drain(self) -> None:
        """Wait until all that was sent over fabric ports has been acknowledged.

        Raise PeerLost where it is not in the time in which circuits must come.
        """
        limit = time.monotonic() + LONGEST_WAIT
        for connection in self._connections:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        while any(map(unacknowledged, self._connections)):
            if time.monotonic() >= limit:
                raise PeerLost("other", f"nothing was acknowledged in {LONGEST_WAIT:g} s")
            time.sleep(_LOOK_AGAIN)


@cache
def rails_of_process() -> Optional[Rails]:
    """Return the rails of this process; None where its rank has none."""
    name = os.environ.get(RAILS)
    if name is None:
        return None
    rails = Rails(RailLine(name))
    atexit.register(rails.operations.close, _LEAVING)
    return rails


def _connections(addresses: Sequence[str]) -> list[socket.socket]:
    """Return the TCP connections of this process from these addresses."""
    found = []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError), socket.socket(fileno=os.dup(int(path.name))) as one:
            if one.family != socket.AF_INET or one.type != socket.SOCK_STREAM:
                continue
            if one.getpeername() and one.getsockname()[0] in addresses:
                # `dup` of a socket would make the library's one block.
                found.append(socket.socket(fileno=one.detach()))
    return found
