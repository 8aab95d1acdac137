"""Two rings around the same ranks in opposite directions, which share the work of each sum.

A circuit carries light both ways, and one ring uses one of them: two use all that the ports of a
rank carry. Of two ranks that are joined by two circuits each then sends over both. This is what
Morphlux's slices have their redirected ports for (arXiv 2508.03674, section 6).
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import replace

from .communicator import Vector, chunk_bounds
from .connections import NEXT, PREVIOUS, Peer, PeerConnections
from .control import LeaveOrder
from .handshake import Address, connect_neighbours
from .rank_identity import RankIdentity
from .rank_schedule import ScheduleRecord
from .ring import Ring
from .sockets import Port, discard
from .tasks import run

BACKWARD = {NEXT: "next of the second ring", PREVIOUS: "previous of the second ring"}
"""What the neighbours are called in the second ring, which goes the other way around."""

SHARED = 64 << 10
"""Bytes from which on both rings sum a vector. What is shorter takes the time of its messages, of
which two rings have twice as many."""


class TwoRings(Ring):
    """All ranks of one generation, connected to both neighbours in both directions.

    It is the first of the rings, which alone hands on states, waits in barriers and is probed.
    """

    def __init__(self, rank: int, ranks: int, connections: PeerConnections) -> None:
        super().__init__(rank, ranks, connections)
        self._second = Ring(
            -rank % ranks,
            ranks,
            connections,
            next_one=BACKWARD[NEXT],
            previous=BACKWARD[PREVIOUS],
        )

    @classmethod
    def connect(
        cls,
        listeners: Sequence[socket.socket],
        second: socket.socket,
        to_next: tuple[Port, Address],
        to_previous: tuple[Port, Address],
        identity: RankIdentity,
        leave: LeaveOrder,
    ) -> TwoRings:
        """Connect to both neighbours for one ring after the other; raise Left.

        `second` listens where the previous rank's circuit does not end. Ranks that are ahead wait.
        """
        forward = connect_neighbours(listeners, to_next, identity, leave)
        backward = replace(identity, rank=-identity.rank % identity.ranks)
        try:
            others = connect_neighbours((second,), to_previous, backward, leave)
        except BaseException:
            for connection in forward.values():
                discard(connection)
            raise
        sockets = {**forward, **{BACKWARD[peer]: one for peer, one in others.items()}}
        # One that breaks is that of a neighbour, whichever ring it is in.
        names: dict[Peer, str] = {BACKWARD[NEXT]: PREVIOUS, BACKWARD[PREVIOUS]: NEXT}
        connections = PeerConnections(sockets, identity.generation, leave, names)
        return cls(identity.rank, identity.ranks, connections)

    def all_reduce(self, vector: Vector) -> ScheduleRecord:
        """Replace a contiguous vector by its sum over the ranks, half of it by each ring."""
        if self.ranks == 1 or vector.nbytes < SHARED:
            return super().all_reduce(vector)
        rings = self, self._second
        halves = [vector[start:end] for start, end in chunk_bounds(vector.size, len(rings))]
        both = [ring.streams(half) for ring, half in zip(rings, halves)]  # noqa: B905 - Python 3.9
        run(self.connections, *(task for one in both for task in (one.send(), one.receive())))
        record = both[0].record()
        record.sent += both[1].sent
        return record
