"""Run a schedule: rounds of sends between the ranks of one generation, given as plain data.

Each rank does its own part of every round, in order, and no round waits for another rank's. While
a rank sends to the same peer round after round, as in a ring, there is no pause between them: bytes
of a chunk go out as soon as everything that earlier rounds do to them is done. Before it turns to
another peer it finishes what it receives itself, and a large message waits until its receiver has
done so and says that it is ready; who runs ahead would only take the rate of a port from those who
are still in the round before. What comes in is applied as soon as the bytes that
this rank still owes of its own are out. So the result does not depend on how the bytes were cut on
the way: every element sees the operations of its rounds in their order.

It cannot come to a standstill: of all parts that are not done, those of the lowest round wait for
nothing but their peers.
"""

from __future__ import annotations

import struct
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ProtocolError, WrongGeneration
from .layout import MAGIC, READY, Layout, Way
from .lines import Lines
from .parts import Program, Record

Vector = npt.NDArray[Any]

_SYNC = struct.Struct("!4sIII")  # magic, generation, epoch, turn
_TOGETHER = b"sync"

STAGING = 256 << 10
"""Most bytes that are taken in before they are added."""


class Group:
    """All ranks of one generation, each connected to every other; all call the same in order.

    Ranks `around` a ring need be connected to their neighbours only, unless a program says more.
    Where ports are not `shared`, as with a circuit for each pair, nobody waits to be told that a
    receiver is ready.

    A receiver that expects another message raises WrongGeneration or ProtocolError; Left and
    PeerLost may come from any call. After any of them the buffers hold garbage. Runs are counted
    from the last barrier, so that between two of them pairs may run what concerns them alone.
    """

    def __init__(
        self, rank: int, ranks: int, links: Lines, *, around: bool = False, shared: bool = True
    ) -> None:
        self.rank, self.ranks, self.links = rank, ranks, links
        doubling = [1 << bit for bit in range((ranks - 1).bit_length())]
        self._distances = [1] * (ranks - 1) if around else doubling
        self._shared = shared
        self._epoch = self._number = 0
        self._staging = memoryview(bytearray(STAGING))
        self._layouts: dict[tuple[int, int, int], Layout] = {}

    @property
    def generation(self) -> int:
        """Return the generation that all ranks of this group agreed on."""
        return self.links.generation

    def checkpoint(self) -> None:
        """Raise Left when this generation must be left."""
        self.links.checkpoint()

    def run(self, program: Program, vector: Vector) -> Record:
        """Do this rank's part of a schedule on a contiguous vector; every rank calls this."""
        self._number += 1
        key = (id(program), vector.size, vector.itemsize)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = Layout(
                program, vector.size, vector.itemsize, shared=self._shared
            )
        layout.reset((self.generation, self._epoch, self._number))
        for peer in layout.peers:
            self.links.stay(peer, layout.stays)
        return _Run(self.links, layout, vector, self._staging).run()

    def barrier(self) -> None:
        """Return when every rank has called this."""
        self._epoch, self._number = self._epoch + 1, 0
        for turn, distance in enumerate(self._distances):
            word = _SYNC.pack(_TOGETHER, self.generation, self._epoch, turn)
            self._exchange(
                word, (self.rank + distance) % self.ranks, (self.rank - distance) % self.ranks
            )

    def _exchange(self, word: bytes, to: int, source: int) -> None:
        unsent, heard = memoryview(word), bytearray(len(word))
        room = memoryview(heard)
        while unsent or room:
            sent = self.links.send(to, [unsent]) if unsent else 0
            received = self.links.receive(source, [room]) if room else 0
            unsent, room = unsent[sent:], room[received:]
            if not sent and not received:
                self.links.wait(source if room else None, to if unsent else None)
        check_opening(bytes(heard), word)


def check_opening(came: bytes, expected: bytes) -> None:
    """Raise WrongGeneration or ProtocolError unless a message opens as it should."""
    if came == expected:
        return
    generations = [int.from_bytes(opening[4:8], "big") for opening in (came, expected)]
    if came[:4] in (MAGIC, READY, _TOGETHER) and generations[0] != generations[1]:
        raise WrongGeneration("a message of generation {} came into {}".format(*generations))
    raise ProtocolError(f"a rank opened a message with {came!r}, not with {expected!r}")


class _Run:
    """One run of one program: the send and the receive that are under way, and what is left."""

    def __init__(self, links: Lines, layout: Layout, vector: Vector, staging: memoryview) -> None:
        self._links, self._vector, self._staging = links, vector, staging
        self._bytes = vector.view(np.uint8).data
        self._size = vector.itemsize
        self._staged = np.frombuffer(staging, vector.dtype)
        self._out, self._in = layout.sends[::-1], layout.receives[::-1]
        self._position = 0  # bytes of the current send that are gone
        self._held = 0  # bytes in the staging that are not applied
        self._taken = 0  # bytes of the current receive that have arrived
        self._since = time.monotonic()
        self._record = Record()

    def run(self) -> Record:
        """Send and receive until both lists are empty."""
        while True:
            moved = self._send() + self._receive()
            if not self._out and not self._in:
                return self._record
            if moved:
                self._links.checkpoint()
            else:
                self._wait()

    def _wait(self) -> None:
        reading = self._in[-1].part.peer if self._in and self._room() is not None else None
        writing = self._out[-1].part.peer if self._may_send() else None
        if reading is None and writing is None:
            raise ProtocolError("this rank's part of the schedule waits for itself")
        self._links.wait(reading, writing)

    # --- out

    def _may_send(self) -> bool:
        return bool(self._out and self._sendable(self._out[-1]))

    def _sendable(self, way: Way) -> list[memoryview | bytes]:
        """Return what may go out now, of its opening and of its bytes."""
        if way.follows and self._in and self._in[-1].place < way.follows:
            return []
        data = self._memory(way)[self._position : (way.limit() - way.start) * self._size]
        if way.opened == len(way.opening):
            return [data] if data else []
        if not data and way.start < way.stop:
            return []  # an opening alone would wake the peer for nothing
        left = way.opening[way.opened :]
        return [left, data] if data else [left]

    def _memory(self, way: Way) -> memoryview:
        """Return the bytes that it is about: of the vector, or of what only passes through."""
        if way.memory is not None:
            return way.memory
        return self._bytes[way.start * self._size : way.stop * self._size]

    def _send(self) -> int:
        if not self._out:
            return 0
        way = self._out[-1]
        pieces = self._sendable(way)
        count = self._links.send(way.part.peer, pieces) if pieces else 0
        if count:
            if way.begun is None:
                way.begun = time.monotonic()
            opened = min(count, len(way.opening) - way.opened)
            way.opened += opened
            self._position += count - opened
            self._record.sent += count
            way.done = way.start + self._position // self._size
            self._finish_send(way)
        return count

    def _finish_send(self, way: Way) -> None:
        if way.opened == len(way.opening) and self._position == (way.stop - way.start) * self._size:
            way.done = way.stop
            self._note_end(way)
            self._out.pop()
            self._position = 0

    # --- in

    def _room(self) -> list[memoryview] | None:
        """Return where the next bytes of the current receive may go; None when nowhere yet."""
        way = self._in[-1]
        rooms = []
        if way.opened < len(way.opening):
            rooms.append(memoryview(way.heading)[way.opened :])
        if way.part.adds:
            left = (way.stop - way.start) * self._size - self._taken
            data = self._staging[self._held : self._held + left]
        else:
            data = self._memory(way)[self._taken : (way.limit() - way.start) * self._size]
        if data:
            rooms.append(data)
        return rooms or None

    def _receive(self) -> int:
        if not self._in:
            return 0
        way = self._in[-1]
        rooms = self._room()
        count = 0 if rooms is None else self._links.receive(way.part.peer, rooms)
        if count:
            self._note_first(way)
            opened = min(count, len(way.opening) - way.opened)
            way.opened += opened
            if opened and way.opened == len(way.opening):
                check_opening(bytes(way.heading), way.opening)
            self._taken += count - opened
            if way.part.adds:
                self._held += count - opened
        before = way.done
        self._apply(way)
        return count + (way.done - before)

    def _note_first(self, way: Way) -> None:
        if way.begun is None:
            way.begun = time.monotonic()
            waits, peer = self._record.waits, way.part.peer
            waits[peer] = max(waits.get(peer, 0.0), way.begun - self._since)

    def _note_end(self, way: Way) -> None:
        assert way.begun is not None
        if way.is_data:
            self._record.part_of(way.part.round, way.begun, time.monotonic())

    def _apply(self, way: Way) -> None:
        """Take what has arrived into the vector, as far as we no longer owe our own."""
        if way.part.adds:
            whole = min(self._held // self._size, way.limit() - way.done)
            if whole > 0:
                used = whole * self._size
                own = self._vector[way.done : way.done + whole]
                np.add(own, self._staged[:whole], out=own)
                self._held -= used
                if self._held:
                    rest = bytes(self._staging[used : used + self._held])
                    self._staging[: self._held] = rest
                way.done += whole
        else:
            way.done = way.start + self._taken // self._size
        if way.opened == len(way.opening) and way.done == way.stop:
            self._note_end(way)
            self._in.pop()
            self._taken = 0
            self._since = time.monotonic()
