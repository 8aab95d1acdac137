"""A group of ranks on a circuit switch, where each rank reaches only its lit circuits' peers.

Between two collectives, the circuits of a ring are lit. In a collective, a rank that has finished
a round requests the circuits of the next round and continues when they are reported as lit. It
requests them only when all data that it sent was acknowledged, so that nothing is lost when a
mirror moves; a connection stays open while its circuit is dark.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .communicator import Vector
from .connections import PeerConnections
from .control import Control
from .group import Group
from .handshake import Address, connect_peers
from .rank_identity import RankIdentity
from .rank_schedule import RankSchedule, ScheduleRecord
from .sockets import LOOPBACK, Port, discard

RING = 0
"""The number of the circuits of the ring."""

CHANGES = 16
"""How many changes of circuits are timed at least before a job begins, in whole tours."""

CircuitEnds = tuple[tuple[int, int], tuple[int, int]]
"""A circuit: a rank and the number of its port, at either end; the lower rank first."""


@dataclass(frozen=True)
class FabricPorts:
    """The two fabric ports of a rank and the listening socket on each; port 0 comes first."""

    ports: tuple[Port, Port]
    listeners: tuple[socket.socket, socket.socket]


@dataclass(frozen=True)
class ScheduleStage:
    """Consecutive rounds of a collective on the same circuits: this rank's part of them."""

    circuits: int
    schedule: RankSchedule
    acting: frozenset[int]
    """The ranks that have a part."""


class CircuitGroup:
    """All ranks of one generation, with connections over every circuit that they will request.

    `run` and `barrier` are like those of `Group`, and every rank calls both in the same order.
    `circuits` are all circuits that they will request, by number; `tour` is an order in which every
    change of a collective is made once, starting and ending with the circuits of the ring.
    """

    def __init__(
        self,
        identity: RankIdentity,
        circuits: Sequence[Sequence[CircuitEnds]],
        tour: Sequence[int],
        control: Control,
        ports: tuple[Port, Port] = (LOOPBACK, LOOPBACK),
        numbers: Mapping[int, int] | None = None,
    ) -> None:
        """Take the parts; `numbers` are the TCP ports on which ranks listen on their port 0."""
        self.ports = ports
        self.numbers: Mapping[int, int] = numbers or {}
        self.rank, self.ranks = identity.rank, identity.ranks
        self.generation = identity.generation
        self._control = control
        self._tour = tour
        self._circuits = [_by_peer(identity.rank, ends) for ends in circuits]
        self._sockets: dict[CircuitEnds, socket.socket] = {}
        self._groups: dict[int, Group] = {}
        self._lit = RING
        self._requests = 0

    @classmethod
    def connect(
        cls,
        ports: FabricPorts,
        members: Mapping[int, Mapping[str, Any]],
        identity: RankIdentity,
        options: Mapping[str, Any],
        control: Control,
    ) -> CircuitGroup:
        """Make every circuit change of the tour, and connect to the peer on each circuit.

        Raise Left after closing every connection.
        """
        addresses = {r: ((m["address"], m["port"]), tuple(m["second"])) for r, m in members.items()}
        numbers = {identity.rank: ports.listeners[0].getsockname()[1]}
        numbers |= {rank: first[1] for rank, (first, _) in addresses.items()}
        circuits, tour = options["circuits"], options["tour"]
        group = cls(identity, circuits, tour, control, ports.ports, numbers)
        try:
            for number in (RING, *options["tour"]):
                group.light(number)
                if number not in group._groups:
                    group._connect_over(number, ports, addresses, identity)
        except BaseException:
            group.close()
            raise
        return group

    def _connect_over(
        self,
        number: int,
        ports: FabricPorts,
        addresses: Mapping[int, tuple[Address, Address]],
        identity: RankIdentity,
    ) -> None:
        circuits = self._circuits[number]
        new = {rank: ends for rank, ends in circuits.items() if ends not in self._sockets}
        paths = {}
        for rank, ends in new.items():
            own, other = sorted(ends, key=lambda end: end[0] != self.rank)
            paths[rank] = (ports.ports[own[1]], addresses[rank][other[1]])
        leave = self._control.leave
        for rank, connection in connect_peers(ports.listeners, paths, identity, leave).items():
            self._sockets[new[rank]] = connection
        sockets = {rank: self._sockets[ends] for rank, ends in circuits.items()}
        connections = PeerConnections(sockets, self.generation, leave)
        self._groups[number] = Group(
            self.rank, self.ranks, connections, around=number == RING, shared=False
        )

    @property
    def ring(self) -> Group:
        """Return the group for the circuits of the ring, where a rank reaches two neighbours."""
        return self._groups[RING]

    @property
    def connections(self) -> PeerConnections:
        """Return the connections over the circuits of the ring, which use both ports."""
        return self.ring.connections

    def peers(self, number: int) -> frozenset[int]:
        """Return the ranks that this one reaches over the circuits with a number."""
        return frozenset(self._circuits[number])

    def raise_if_left(self) -> None:
        """Raise Left when this generation must be left."""
        self._control.leave.check(self.generation)

    def barrier(self) -> None:
        """Return when every rank has called this, on the circuits of the ring."""
        self.light(RING)
        self.ring.barrier()
        self.ring.connections.acknowledge()

    def run(self, stages: Sequence[ScheduleStage], vector: Vector) -> ScheduleRecord:
        """Run this rank's part of a collective, and request circuits between its stages."""
        record, before = ScheduleRecord(), frozenset[int]()
        for stage in stages:
            self.light(stage.circuits, before | stage.acting)
            record.merge(self._groups[stage.circuits].run(stage.schedule, vector))
            before = stage.acting
        return record

    def light(self, number: int, ranks: Optional[frozenset[int]] = None) -> None:
        """Request circuits, together with the ranks whose circuits change; None for all ranks.

        Other ranks continue, so that a late rank does not delay the circuits of the others.
        """
        if number == self._lit:
            return
        before, self._lit = self._lit, number
        self._requests += 1
        asking = frozenset(range(self.ranks)) if ranks is None else ranks
        if self.rank in asking:
            if before in self._groups:
                self._groups[before].connections.drain()
            self._control.ask_for_circuits(
                self.generation, self._requests, circuits=number, of=sorted(asking)
            )

    def time_changes(self, at_least: int = 1) -> list[float]:
        """Return the duration in seconds of each circuit change of whole tours, without data."""
        found = []
        tours = -(-at_least // len(self._tour)) if self._tour else 0
        for number in [*self._tour] * tours:
            begin = time.monotonic()
            self.light(number)
            found.append(time.monotonic() - begin)
        return found

    def close(self) -> None:
        """Close every connection and discard unsent data."""
        for connection in self._sockets.values():
            discard(connection)


def stages_of(stages: Sequence[Mapping[str, Any]], rank: int) -> tuple[ScheduleStage, ...]:
    """Return a rank's part of a collective in stages, each with circuits and a schedule."""
    return tuple(
        ScheduleStage(
            stage["circuits"],
            RankSchedule.of(stage, rank),
            frozenset(end for step in stage["rounds"] for row in step for end in row[:2]),
        )
        for stage in stages
    )


def _by_peer(rank: int, circuits: Sequence[CircuitEnds]) -> dict[int, CircuitEnds]:
    """Return the circuit by which a rank reaches each of the others that it reaches."""
    found: dict[int, CircuitEnds] = {}
    for (a, port_a), (b, port_b) in sorted(circuits):
        if rank in (a, b):
            found.setdefault(b if rank == a else a, ((a, port_a), (b, port_b)))
    return found
