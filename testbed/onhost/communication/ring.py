"""The ring of one generation: AllReduce, and the transfer of a job's state.

Ring AllReduce is a reduce-scatter followed by an all-gather (Patarasuk and Yuan, 2009). Seen from
one rank it is two streams of bytes: out goes its own chunk and then everything that came in, each
byte as soon as it is reduced. So there is no pause between the rounds, and the result does not
depend on how the network splits the bytes: chunk c is summed in the order c, c+1, … of the ranks,
on every rank and at any speed.
"""

from __future__ import annotations

import select
import time

import numpy as np

from .communicator import Communicator, Vector, chunk_bounds
from .connections import BLOCKED, MOVED, NEXT, PREVIOUS, Peer, PeerConnections
from .rank_schedule import ScheduleRecord
from .state_transfer import OPENING, STATE, receive_opening, receive_state, send_state
from .tasks import Task, run

SEGMENT = 256 << 10
"""Most bytes that are taken in before they are reduced and passed on."""


class Ring(Communicator):
    """All ranks of one generation, each connected to its NEXT and its PREVIOUS neighbour.

    Neighbours may have other names, where the same connections serve another ring besides.
    """

    def __init__(
        self,
        rank: int,
        ranks: int,
        connections: PeerConnections,
        *,
        next_one: Peer = NEXT,
        previous: Peer = PREVIOUS,
    ) -> None:
        super().__init__(rank, ranks, connections, [(next_one, previous)] * (ranks - 1))
        self.next, self.previous = next_one, previous
        self._opened = self._expected = 0
        self._staging = np.empty(SEGMENT, np.uint8)

    def all_reduce(self, vector: Vector) -> ScheduleRecord:
        """Replace a contiguous vector by its sum over the ranks; return the recorded times.

        Every rank ends with the same bits.
        """
        if self.ranks == 1:
            return ScheduleRecord()
        streams = self.streams(vector)
        run(self.connections, streams.send(), streams.receive())
        return streams.record()

    def streams(self, vector: Vector) -> Streams:
        """Return the next AllReduce of this ring, which begins when its tasks are run."""
        opening = self.opening(b"SUM ", vector.nbytes)
        expected = self.expected(b"SUM ", vector.nbytes)
        return Streams(self, vector, self._staging, opening, expected)

    def send_state(self, state: memoryview) -> None:
        """Send a job's state to the next rank, which calls `receive_state`."""
        send_state(self.connections, NEXT, self.opening(STATE, len(state)), state)

    def receive_state(self, buffer: memoryview) -> None:
        """Fill `buffer` with the state of the previous rank; raise Corrupt for a wrong checksum."""
        receive_state(self.connections, PREVIOUS, self.expected(STATE, len(buffer)), buffer)

    def opening(self, kind: bytes, size: int) -> bytes:
        """Return the opening of the next message to the next rank."""
        self._opened += 1
        return OPENING.pack(kind, self.generation, self._opened, size)

    def expected(self, kind: bytes, size: int) -> bytes:
        """Return the opening that the next message from the previous rank must have."""
        self._expected += 1
        return OPENING.pack(kind, self.generation, self._expected, size)


class Streams:
    """The two streams of one AllReduce, and how far the outgoing one may go."""

    def __init__(
        self, ring: Ring, vector: Vector, staging: Vector, opening: bytes, expected: bytes
    ) -> None:
        self._ring, self._connections, self._staging = ring, ring.connections, staging
        self._expected = expected
        chunks = [vector[start:end] for start, end in chunk_bounds(vector.size, ring.ranks)]
        rounds = range(2 * ring.ranks - 1)
        order = [chunks[(ring.rank - number) % ring.ranks] for number in rounds]
        self._reduced, self._gathered = order[1 : ring.ranks], order[ring.ranks :]
        self._outgoing = [memoryview(opening), *map(_raw, order[:-1])]
        self._ready = len(opening) + order[0].nbytes
        self._begin = time.monotonic()
        self.sent = 0
        self.waited = 0.0

    def send(self) -> Task:
        """Send our own chunk, then all received data as soon as it is reduced."""
        send, peer = self._connections.send, self._ring.next
        need = (peer, select.POLLOUT)
        for piece in self._outgoing:
            rest = piece
            while rest:
                ready = rest[: self._ready - self.sent]
                count = send(peer, ready) if ready else 0
                rest = rest[count:]
                self.sent += count
                yield MOVED if count else need if ready else BLOCKED

    def record(self) -> ScheduleRecord:
        """Return the recorded times, once both streams have ended."""
        before = (self._ring.rank - 1) % self._ring.ranks
        return ScheduleRecord(self.sent, waits={before: self.waited})

    def receive(self) -> Task:
        """Receive and reduce chunk by chunk, then receive the complete sums."""
        yield from receive_opening(self._connections, self._expected, self._ring.previous)
        self.waited = time.monotonic() - self._begin
        for chunk in self._reduced:
            yield from self._reduce(chunk)
        for chunk in self._gathered:
            yield from self._gather(chunk)

    def _reduce(self, chunk: Vector) -> Task:
        """Add what arrives to our own values; keep the bytes of a split element for the next."""
        receive, peer = self._connections.receive, self._ring.previous
        need = (peer, select.POLLIN)
        staging, elements = _raw(self._staging), self._staging.view(chunk.dtype)
        held = done = 0
        while done < chunk.size:
            most = min(len(staging), (chunk.size - done) * chunk.itemsize)
            count = receive(peer, staging[held:most])
            if count:
                whole, rest = divmod(held + count, chunk.itemsize)
                own = chunk[done : done + whole]
                np.add(own, elements[:whole], out=own)
                staging[:rest] = staging[held + count - rest : held + count]
                held = rest
                done += whole
                self._ready += whole * chunk.itemsize
            yield MOVED if count else need

    def _gather(self, chunk: Vector) -> Task:
        """Take sums in place: by the time they arrive, our own values have long been sent."""
        receive, peer, buffer = self._connections.receive, self._ring.previous, _raw(chunk)
        need = (peer, select.POLLIN)
        while buffer:
            count = receive(peer, buffer)
            buffer = buffer[count:]
            self._ready += count
            yield MOVED if count else need


def _raw(vector: Vector) -> memoryview:
    return vector.view(np.uint8).data
