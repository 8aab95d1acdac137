"""Messages of arrays between two ranks of a group, each with a checksum.

While a rank sends, it takes in what its receiver sends meanwhile, so that two ranks that send to
each other at once do not wait for each other.
"""

from __future__ import annotations

import select
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from ..errors import Corrupt
from .communicator import check_opening
from .connections import MOVED, PeerConnections
from .tasks import Task, receive_all, run, send_all

Array = npt.NDArray[Any]

_OPENING = struct.Struct("!4sIIQ")  # kind, generation, number, bytes
_CHECKSUM = struct.Struct("!I")  # CRC-32

_TAKEN = 256 << 10
"""Most bytes that are taken in at once while sending."""


class Messages:
    """What one rank of a group sends to single others, and receives from them.

    Messages from one rank to another are numbered, and come in the order in which they were sent.
    Left, PeerLost, WrongGeneration, ProtocolError and Corrupt may come from any call.
    """

    def __init__(self, connections: PeerConnections, members: Sequence[int]) -> None:
        """Take the connections by number in the group, and the ranks that have these numbers."""
        self._connections, self._members = connections, members
        self._sent: Counter[int] = Counter()
        self._received: Counter[int] = Counter()
        self._held: defaultdict[int, bytearray] = defaultdict(bytearray)
        """What was taken in while this rank sent."""
        self._is_sending = False

    def send(self, to: int, array: Array) -> int:
        """Send a contiguous array; return the bytes, opening included, once TCP has taken all."""
        data = array.data.cast("B")
        opening = self._opening(self._sent, to, len(data)) + _CHECKSUM.pack(zlib.crc32(data))
        self._is_sending = True
        run(self._connections, self._send(to, opening, data), self._take_in(to))
        return len(opening) + len(data)

    def receive(self, source: int, array: Array) -> None:
        """Fill a contiguous array with the next message from a rank."""
        data, said = array.data.cast("B"), bytearray(_OPENING.size + _CHECKSUM.size)
        self._fill(source, memoryview(said))
        number = self._received[source]
        check_opening(said[: _OPENING.size], self._opening(self._received, source, len(data)))
        self._fill(source, data)
        (expected,) = _CHECKSUM.unpack(said[_OPENING.size :])
        if (found := zlib.crc32(data)) != expected:
            raise Corrupt(
                f"message {number} of {len(data)} bytes from rank {self._members[source]} has the "
                f"checksum {found:08x}, and was sent with {expected:08x}"
            )

    def _opening(self, counts: Counter[int], peer: int, size: int) -> bytes:
        opening = _OPENING.pack(b"mesg", self._connections.generation, counts[peer], size)
        counts[peer] += 1
        return opening

    def _send(self, to: int, opening: bytes, data: memoryview) -> Task:
        yield from send_all(self._connections, to, opening)
        yield from send_all(self._connections, to, data)
        self._is_sending = False

    def _take_in(self, peer: int) -> Task:
        buffer = memoryview(bytearray(_TAKEN))
        while self._is_sending:
            count = self._connections.receive(peer, buffer)
            self._held[peer] += buffer[:count]
            yield MOVED if count else (peer, select.POLLIN)

    def _fill(self, source: int, buffer: memoryview) -> None:
        held = self._held[source]
        first = min(len(held), len(buffer))
        buffer[:first] = held[:first]
        del held[:first]
        if buffer[first:]:
            run(self._connections, receive_all(self._connections, source, buffer[first:]))
