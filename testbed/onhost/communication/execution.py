"""Run a rank's part of a schedule as concurrent tasks: its sends, and its receives.

There are two, or, where each peer has a port of its own, one for each peer and direction. Received
data is applied as soon as this rank has sent its own bytes of these elements. So the result does
not depend on how the network splits the bytes: the operations of the rounds are applied to every
element in order. There is no deadlock: among unfinished transfers, those of the lowest round wait
only for their peers.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .communicator import Vector, check_opening
from .connections import BLOCKED, MOVED, PeerConnections
from .layout import DATA, Layout, Transfer
from .rank_schedule import ScheduleRecord
from .tasks import Task, run

STAGING = 256 << 10
"""Most bytes that are taken in before they are added."""


class _Staging(NamedTuple):
    """Where a line's bytes wait until they can be added: as bytes, and as elements."""

    bytes: memoryview
    elements: Vector


class Execution:
    """One run of a layout on a vector."""

    def __init__(
        self,
        connections: PeerConnections,
        layout: Layout,
        vector: Vector,
        stagings: Sequence[memoryview],
    ) -> None:
        """Take the parts; of `stagings` there is one of `STAGING` bytes for each incoming line."""
        self._connections, self._layout = connections, layout
        self._vector, self._stagings = vector, stagings
        self._bytes, self._size = vector.view(np.uint8).data, vector.itemsize
        self._awaited = deque(layout.receives)
        """The receives that are not done, in the order of their rounds."""
        self._since = 0.0
        """When the last receive was done."""
        self._record = ScheduleRecord()

    def run(self) -> ScheduleRecord:
        """Send and receive until all transfers are done; return their times."""
        self._since = time.monotonic()
        receives = [
            self._receive(line, _Staging(staging, np.frombuffer(staging, self._vector.dtype)))
            for line, staging in zip(self._layout.incoming, self._stagings)  # noqa: B905 - Python 3.9
        ]
        run(self._connections, *map(self._send, self._layout.outgoing), *receives)
        return self._record

    def _memory(self, transfer: Transfer) -> memoryview:
        """Return the bytes that it is about: of the vector, or of what only passes through."""
        if transfer.memory is not None:
            return transfer.memory
        return self._bytes[transfer.start * self._size : transfer.stop * self._size]

    def _note_end(self, transfer: Transfer, begin: float) -> float:
        end = time.monotonic()
        if transfer.kind == DATA:
            self._record.note_round(transfer.part.round, begin, end)
        return end

    # --- out

    def _send(self, line: Sequence[Transfer]) -> Task:
        for transfer in line:
            yield from self._send_one(transfer)

    def _send_one(self, transfer: Transfer) -> Task:
        send, size = self._connections.send, self._size
        peer, start = transfer.part.peer, transfer.start
        need, begin = (peer, select.POLLOUT), 0.0
        opening, memory, sent = memoryview(transfer.opening), self._memory(transfer), 0
        while opening or sent < len(memory):
            data = memory[sent : (transfer.limit() - start) * size]
            if self._is_early(transfer) or (memory and not data):
                yield BLOCKED  # an opening alone would wake the peer for nothing
                continue
            count = send(peer, *filter(None, (opening, data)))
            if not count:
                yield need
                continue
            begin = begin or time.monotonic()
            opened = min(count, len(opening))
            opening = opening[opened:]
            sent += count - opened
            self._record.sent += count
            transfer.done = start + sent // size
            if not opening and sent == len(memory):
                self._note_end(transfer, begin)
            yield MOVED

    def _is_early(self, transfer: Transfer) -> bool:
        """Tell whether a receive must be done first, of the same rounds or of earlier ones."""
        follows, awaited = transfer.follows, self._awaited
        return follows is not None and bool(awaited) and awaited[0].place < follows

    # --- in

    def _receive(self, line: Sequence[Transfer], staging: _Staging) -> Task:
        for transfer in line:
            yield from self._receive_one(transfer, staging)

    def _receive_one(self, transfer: Transfer, staging: _Staging) -> Task:
        receive, size, adds = self._connections.receive, self._size, transfer.part.adds
        peer, start = transfer.part.peer, transfer.start
        need, begin = (peer, select.POLLIN), 0.0
        memory, taken = self._memory(transfer), 0
        opening = bytearray(len(transfer.opening))
        heading = memoryview(opening)
        while True:
            if adds:
                held = taken - (transfer.done - start) * size
                buffer = staging.bytes[held : held + len(memory) - taken]
            else:
                buffer = memory[taken : (transfer.limit() - start) * size]
            buffers = [place for place in (heading, buffer) if place]
            count = receive(peer, *buffers) if buffers else 0
            if count:
                begin = begin or self._note_first(transfer)
                opened = min(count, len(heading))
                heading = heading[opened:]
                if opened and not heading:
                    check_opening(opening, transfer.opening)
                taken += count - opened
            before = transfer.done
            self._apply(transfer, taken, staging)
            if not heading and transfer.done == transfer.stop:
                self._awaited.remove(transfer)
                self._since = self._note_end(transfer, begin)
                yield MOVED
                return
            if count or transfer.done > before:
                yield MOVED
            else:
                yield need if buffers else BLOCKED

    def _note_first(self, transfer: Transfer) -> float:
        """Note for how long the first bytes of a peer were waited for; return when they came.

        While a message of an earlier round is awaited, it is that one which is waited for.
        """
        now = time.monotonic()
        waits, peer = self._record.waits, transfer.part.peer
        waited = now - self._since if self._awaited[0] is transfer else 0.0
        waits[peer] = max(waits.get(peer, 0.0), waited)
        return now

    def _apply(self, transfer: Transfer, taken: int, staging: _Staging) -> None:
        """Take `taken` bytes into the vector, as far as we need not send our own first."""
        size, start = self._size, transfer.start
        if not transfer.part.adds:
            transfer.done = start + taken // size
            return
        done = transfer.done
        whole = min(start + taken // size, transfer.limit()) - done
        if whole > 0:
            own = self._vector[done : done + whole]
            np.add(own, staging.elements[:whole], out=own)
            transfer.done += whole
            held, used = taken - (done - start) * size, whole * size
            if held > used:
                staging.bytes[: held - used] = bytes(staging.bytes[used:held])
