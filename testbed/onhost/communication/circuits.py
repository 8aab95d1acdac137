"""A group on a circuit switch: each rank reaches those that the circuits lead to, and no others.

The circuits are those of a ring between two collectives. In a collective a rank that is through
with a round asks for those of the next one and goes on when it hears that they are lit. It asks
only when all that it has sent was acknowledged, so that nothing is lost when a mirror moves, and a
connection lives through the dark until its circuit is lit again.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .communicator import Vector
from .connections import PeerConnections
from .control import Control
from .handshake import Address, connect_peers
from .parts import Program, Record
from .rank_identity import RankIdentity
from .schedule import Group
from .sockets import Port, discard

HOME = 0
"""The number of the circuits of the ring."""

PASSES = 8
"""How often every change is made to measure it."""

Joint = tuple[tuple[int, int], tuple[int, int]]
"""A circuit: a rank and the number of its port, at either end; the lower rank first."""


@dataclass(frozen=True)
class Doors:
    """A rank's two fabric ports and the listener on each; port 0 comes first."""

    ports: tuple[Port, Port]
    listeners: tuple[socket.socket, socket.socket]


@dataclass(frozen=True)
class Leg:
    """Rounds of a collective over the same circuits: this rank's part of them."""

    circuits: int
    program: Program
    acting: frozenset[int]
    """The ranks that have a part."""


class Circuits:
    """All ranks of one generation, with connections over every circuit that they will ask for.

    `run` and `barrier` are like those of `Group`, and every rank calls both in the same order.
    `circuits` are all that they will ask for, by number, and a `tour` of them: from home through
    every change that a collective will make, and home again.
    """

    def __init__(
        self,
        identity: RankIdentity,
        circuits: Sequence[Sequence[Joint]],
        tour: Sequence[int],
        control: Control,
    ) -> None:
        self.rank, self.ranks, self.generation = identity.rank, identity.ranks, identity.generation
        self._control = control
        self._tour = tour
        self._peers = [_peers(identity.rank, joints) for joints in circuits]
        self._sockets: dict[Joint, socket.socket] = {}
        self._groups: dict[int, Group] = {}
        self._now = HOME
        self._asked = 0

    @classmethod
    def meet(
        cls,
        doors: Doors,
        members: Mapping[int, Mapping[str, Any]],
        identity: RankIdentity,
        told: Mapping[str, Any],
        control: Control,
    ) -> Circuits:
        """Go on the tour, and meet who is at the other ends of the circuits.

        Raise Left, with nothing left open.
        """
        addresses = {r: ((m["address"], m["port"]), tuple(m["second"])) for r, m in members.items()}
        together = cls(identity, told["circuits"], told["tour"], control)
        try:
            for number in (HOME, *told["tour"]):
                together.light(number)
                if number not in together._groups:
                    together._meet_those_of(number, doors, addresses, identity)
        except BaseException:
            together.close()
            raise
        return together

    def _meet_those_of(
        self,
        number: int,
        doors: Doors,
        addresses: Mapping[int, tuple[Address, Address]],
        identity: RankIdentity,
    ) -> None:
        new = {r: joint for r, joint in self._peers[number].items() if joint not in self._sockets}
        ways = {}
        for rank, joint in new.items():
            own, other = sorted(joint, key=lambda end: end[0] != self.rank)
            ways[rank] = (doors.ports[own[1]], addresses[rank][other[1]])
        leave = self._control.leave
        for rank, line in connect_peers(doors.listeners, ways, identity, leave).items():
            self._sockets[new[rank]] = line
        lines = {rank: self._sockets[joint] for rank, joint in self._peers[number].items()}
        self._groups[number] = Group(
            *(self.rank, self.ranks, PeerConnections(lines, self.generation, leave)),
            around=number == HOME,
            shared=False,
        )

    @property
    def home(self) -> Group:
        """Return the group of the ring, in which a rank reaches its two neighbours."""
        return self._groups[HOME]

    @property
    def connections(self) -> Circuits:
        """Return what is to be closed when the generation is left."""
        return self

    def checkpoint(self) -> None:
        """Raise Left when this generation must be left."""
        self._control.leave.check(self.generation)

    def barrier(self) -> None:
        """Return when every rank has called this, at home."""
        self.light(HOME)
        self.home.barrier()
        self.home.connections.acknowledge()

    def run(self, legs: Sequence[Leg], vector: Vector) -> Record:
        """Do this rank's part of a collective, and ask for circuits between its legs."""
        record, before = Record(), frozenset[int]()
        for leg in legs:
            self.light(leg.circuits, before | leg.acting)
            record.add(self._groups[leg.circuits].run(leg.program, vector))
            before = leg.acting
        return record

    def light(self, number: int, of: frozenset[int] | None = None) -> None:
        """Have circuits lit, with those ranks that leave or enter them; all, if none are named.

        The others go on: one that comes late must not keep those from their circuits that are
        there.
        """
        if number == self._now:
            return
        before, self._now = self._now, number
        self._asked += 1
        asking = frozenset(range(self.ranks)) if of is None else of
        if self.rank in asking:
            if before in self._groups:
                self._groups[before].connections.drain()
            self._control.ask_for_circuits(
                self.generation, self._asked, circuits=number, of=sorted(asking)
            )

    def time_changes(self) -> list[float]:
        """Return the seconds of each change of some tours, with nothing to send in between."""
        found = []
        for number in [*self._tour] * PASSES:
            begin = time.monotonic()
            self.light(number)
            found.append(time.monotonic() - begin)
        return found

    def bytes_on_wire(self) -> int | None:
        """Return what both ports have sent since they exist, headers included."""
        return self.home.connections.bytes_on_wire()

    def frames_on_wire(self) -> int | None:
        """Return the frames that were sent by both."""
        return self.home.connections.frames_on_wire()

    def close(self) -> None:
        """Discard every connection."""
        for line in self._sockets.values():
            discard(line)


def legs(stages: Sequence[Mapping[str, Any]], rank: int) -> tuple[Leg, ...]:
    """Return a rank's part of a collective, given as stages: circuits and a schedule each."""
    return tuple(
        Leg(
            stage["circuits"],
            Program.of(stage, rank),
            frozenset(end for step in stage["rounds"] for row in step for end in row[:2]),
        )
        for stage in stages
    )


def _peers(rank: int, circuits: Sequence[Joint]) -> dict[int, Joint]:
    """Return by which circuit a rank reaches whom."""
    found: dict[int, Joint] = {}
    for (a, port_a), (b, port_b) in sorted(circuits):
        if rank in (a, b):
            found.setdefault(b if rank == a else a, ((a, port_a), (b, port_b)))
    return found
