"""The ring of one generation: AllReduce, barrier and the handing over of state.

Ring AllReduce is a reduce-scatter followed by an all-gather (Patarasuk and Yuan, 2009). Seen from
one rank it is two streams of bytes: out goes its own chunk and then everything that came in, each
byte as soon as it is reduced. So there is no pause between the rounds, and the result does not
depend on how the bytes were cut on the way: chunk c is summed in the order c, c+1, … of the ranks,
on every rank and at any speed.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import Corrupt, ProtocolError, WrongGeneration
from .links import Links

Vector = npt.NDArray[Any]
Incoming = Generator[memoryview, int, None]
"""A receiver: yields the room for the next bytes and is sent how many of them arrived."""

SEGMENT = 256 << 10
"""Most bytes that are taken in before they are reduced and passed on."""

_OPENING = struct.Struct("!4s4sIIQ")  # magic, operation, generation, number, bytes
_MAGIC = b"ring"
_CHECKSUM = struct.Struct("!I")


def chunk_bounds(size: int, ranks: int) -> list[tuple[int, int]]:
    """Cut `size` elements into one chunk per rank; the first ones are longer by at most one."""
    short, longer = divmod(size, ranks)
    starts = [short * chunk + min(chunk, longer) for chunk in range(ranks + 1)]
    return [(starts[chunk], starts[chunk + 1]) for chunk in range(ranks)]


class Ring:
    """Communicate with all ranks of one generation; every rank calls the same in the same order.

    Each message opens with its operation, generation, number on its link and length; a receiver
    that expects another raises WrongGeneration or ProtocolError. Left and PeerLost may come from
    any call; after either the buffers hold garbage and the ring is of no more use.
    """

    def __init__(self, rank: int, ranks: int, links: Links) -> None:
        self.rank, self.ranks, self.links = rank, ranks, links
        self._opened = self._expected = 0
        self.waited = 0.0
        """Seconds from the begin of the last AllReduce to the first byte from the previous rank."""
        self._staging = np.empty(SEGMENT, np.uint8)

    @property
    def generation(self) -> int:
        """Return the generation all ranks of this ring agreed on."""
        return self.links.generation

    def checkpoint(self) -> None:
        """Raise Left when this generation must be left."""
        self.links.checkpoint()

    def all_reduce(self, vector: Vector) -> int:
        """Replace a contiguous vector by its sum over the ranks; return the bytes sent for it.

        Every rank ends with the same bits.
        """
        if self.ranks == 1:
            return 0
        opening = self.opening(b"SUM ", vector.nbytes)
        expected = self.expected(b"SUM ", vector.nbytes)
        run = _AllReduce(self, vector, self._staging, opening, expected)
        sent = run.run()
        self.waited = run.waited
        return sent

    def barrier(self) -> None:
        """Return when every rank has called this."""
        self.all_reduce(np.zeros(self.ranks, np.float32))

    def send_state(self, state: memoryview) -> None:
        """Send a job's state to the next rank, which calls `receive_state`."""
        self.send(self.opening(b"STAT", len(state)))
        checksum = 0
        at = 0
        while at < len(state):
            count = self.links.send(state[at : at + SEGMENT])
            if not count:
                self.links.wait(writing=True)
            checksum = zlib.crc32(state[at : at + count], checksum)
            at += count
        self.send(_CHECKSUM.pack(checksum))

    def receive_state(self, room: memoryview) -> None:
        """Fill `room` with the state of the previous rank; raise Corrupt if it was damaged."""
        expected = self.expected(b"STAT", len(room))
        check_opening(self.receive(len(expected)), expected)
        checksum = 0
        at = 0
        while at < len(room):
            count = self.links.receive(room[at : at + SEGMENT])
            if not count:
                self.links.wait(reading=True)
            checksum = zlib.crc32(room[at : at + count], checksum)
            at += count
        if self.receive(_CHECKSUM.size) != _CHECKSUM.pack(checksum):
            raise Corrupt(f"{len(room)} bytes of state came with another checksum")

    def opening(self, operation: bytes, size: int) -> bytes:
        """Return the opening of the next message to the next rank."""
        self._opened += 1
        return _OPENING.pack(_MAGIC, operation, self.generation, self._opened, size)

    def expected(self, operation: bytes, size: int) -> bytes:
        """Return what the next message from the previous rank must open with."""
        self._expected += 1
        return _OPENING.pack(_MAGIC, operation, self.generation, self._expected, size)

    def send(self, data: bytes) -> None:
        """Send a few bytes to the next rank."""
        view = memoryview(data)
        while view:
            count = self.links.send(view)
            if not count:
                self.links.wait(writing=True)
            view = view[count:]

    def receive(self, size: int) -> bytes:
        """Return the next few bytes from the previous rank."""
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = self.links.receive(view)
            if not count:
                self.links.wait(reading=True)
            view = view[count:]
        return bytes(data)


def check_opening(received: bytes, expected: bytes) -> None:
    """Raise WrongGeneration or ProtocolError unless the two openings are the same."""
    if received == expected:
        return
    came, wanted = _OPENING.unpack(received), _OPENING.unpack(expected)
    if came[0] == _MAGIC and came[2] != wanted[2]:
        raise WrongGeneration(f"a message of generation {came[2]} came into {wanted[2]}")
    raise ProtocolError(f"the previous rank opened a message with {came}, not with {wanted}")


class _AllReduce:
    """One AllReduce under way: what may be sent so far, and where the next bytes belong."""

    def __init__(
        self, ring: Ring, vector: Vector, staging: Vector, opening: bytes, expected: bytes
    ) -> None:
        self._links, self._staging, self._expected = ring.links, staging, expected
        chunks = [vector[start:end] for start, end in chunk_bounds(vector.size, ring.ranks)]
        steps = range(2 * ring.ranks - 1)
        order = [chunks[(ring.rank - step) % ring.ranks] for step in steps]
        self._reduced, self._gathered = order[1 : ring.ranks], order[ring.ranks :]
        self._outgoing = [memoryview(opening), *(_raw(chunk) for chunk in order[:-1])]
        self._sent = 0
        self.waited = 0.0
        self._ready = len(opening) + order[0].nbytes

    def run(self) -> int:
        """Send and receive until both streams are at their end; return the bytes sent."""
        begin = time.monotonic()
        incoming = self._incoming()
        room: memoryview | None = next(incoming)
        while True:
            sent = self._send()
            received = 0 if room is None else self._links.receive(room)
            if received:
                self.waited = self.waited or time.monotonic() - begin
                room = _next_room(incoming, received)
            if room is None and not self._outgoing:
                return self._sent
            if sent or received:
                self._links.checkpoint()
            else:
                writing = bool(self._outgoing) and self._sent < self._ready
                self._links.wait(reading=room is not None, writing=writing)

    def _send(self) -> int:
        while self._outgoing and not self._outgoing[0]:
            self._outgoing.pop(0)
        if not self._outgoing or self._sent == self._ready:
            return 0
        view = self._outgoing[0]
        count = self._links.send(view[: self._ready - self._sent])
        self._outgoing[0] = view[count:]
        self._sent += count
        return count

    def _incoming(self) -> Incoming:
        opening = memoryview(bytearray(len(self._expected)))
        at = 0
        while at < len(opening):
            at += yield opening[at:]
        check_opening(bytes(opening), self._expected)
        for chunk in self._reduced:
            yield from self._reduce(chunk)
        for chunk in self._gathered:
            yield from self._gather(chunk)

    def _reduce(self, chunk: Vector) -> Incoming:
        """Add what arrives to our own values; keep the bytes of a split element for the next."""
        staging = _raw(self._staging)
        elements = self._staging.view(chunk.dtype)
        held = done = 0
        while done < chunk.size:
            most = min(len(staging), (chunk.size - done) * chunk.itemsize)
            held += yield staging[held:most]
            whole, rest = divmod(held, chunk.itemsize)
            own = chunk[done : done + whole]
            np.add(own, elements[:whole], out=own)
            staging[:rest] = staging[held - rest : held]
            held = rest
            done += whole
            self._ready += whole * chunk.itemsize

    def _gather(self, chunk: Vector) -> Incoming:
        """Take sums in place: by the time they arrive, our own values have long been sent."""
        room = _raw(chunk)
        at = 0
        while at < len(room):
            count = yield room[at:]
            at += count
            self._ready += count


def _next_room(incoming: Incoming, received: int) -> memoryview | None:
    try:
        return incoming.send(received)
    except StopIteration:
        return None


def _raw(vector: Vector) -> memoryview:
    return vector.view(np.uint8).data
