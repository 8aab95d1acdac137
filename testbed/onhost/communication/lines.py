"""The connections of a rank to every other one, in one generation.

The same rules as in `links`: nothing waits without listening for the order to leave, and nothing
gives up by itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import select
import socket
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from typing import Optional

from ..errors import PeerLost
from .control import LeaveOrder
from .links import bytes_sent_by, frames_sent_by, interface_of
from .sockets import SEND_BUFFER, discard

_TCP_NOTSENT_LOWAT = 25  # Python knows it from 3.12 on
_UNSENT = 2.5e-3
"""Seconds' worth of bytes that may wait in a connection before they are on their way. What waits
there while we turn to the next peer would still share the port with what that one gets."""

_NO_LIMIT = 0x7FFFFFFF

_AHEAD = 30e-3
"""Seconds' worth of send buffer towards the only peer of a schedule: a busy machine may give us no
processor for so long, and the line is to carry something all the same."""

_LARGEST = 6 << 20
"""Bytes above which a send buffer falls out of the cache, and a line so fast needs none."""

_LOOK_AGAIN = 100e-6

_BROKEN = select.POLLERR | select.POLLHUP | select.POLLNVAL | select.POLLRDHUP


class Lines:
    """Move bytes, never more than fits at once; wait for room or for bytes.

    Every call but `close` may raise PeerLost for the rank whose connection broke, and `wait` and
    `checkpoint` raise Left.
    """

    def __init__(
        self, lines: Mapping[int, socket.socket], generation: int, leave: LeaveOrder
    ) -> None:
        self.generation = generation
        self._lines, self._leave = dict(lines), leave
        self._unsent = _NO_LIMIT
        self._limits: dict[int, int] = {}
        self._ranks = {line.fileno(): rank for rank, line in lines.items()}
        self._poll = select.poll()
        self._poll.register(leave, select.POLLIN)
        for line in lines.values():
            self._poll.register(line, select.POLLRDHUP)
        self._asked: dict[int, int] = {}

    def suit(self, rate: float) -> None:
        """Let send buffers be as large as lines of `rate` bytes a second are kept busy by.

        Receive buffers are left to the kernel: one that shrinks below what it has promised throws
        away what comes, and TCP sends that again after 200 ms.
        """
        self._unsent = int(rate * _UNSENT)
        ahead = int(rate * _AHEAD)
        for rank, line in self._lines.items():
            if SEND_BUFFER < ahead <= _LARGEST:
                line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ahead)
            self._limit(rank, self._unsent)

    def stay(self, rank: int, stays: bool) -> None:
        """Say whether all that we send goes to this rank; others would be kept waiting by it.

        Then as much may wait in the connection as there is room for, and the line is busy although
        we are not given a processor in time.
        """
        self._limit(rank, _NO_LIMIT if stays else self._unsent)

    def _limit(self, rank: int, unsent: int) -> None:
        if self._limits.get(rank, _NO_LIMIT) != unsent:
            self._limits[rank] = unsent
            with contextlib.suppress(OSError):  # a kernel without it sends as fast, less in order
                self._lines[rank].setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, unsent)

    def checkpoint(self) -> None:
        """Raise Left when this generation must be left."""
        self._leave.check(self.generation)

    def send(self, rank: int, pieces: Sequence[memoryview | bytes]) -> int:
        """Hand bytes to a rank, one piece after the other; return how many were taken."""
        try:
            line = self._lines[rank]
            return line.send(pieces[0]) if len(pieces) == 1 else line.sendmsg(pieces)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise PeerLost(f"rank {rank}", error.strerror or str(error)) from error

    def receive(self, rank: int, rooms: Sequence[memoryview]) -> int:
        """Fill rooms that are not empty with what came from a rank; return how many bytes."""
        try:
            line = self._lines[rank]
            one = len(rooms) == 1
            count = line.recv_into(rooms[0]) if one else line.recvmsg_into(rooms)[0]
        except BlockingIOError:
            return 0
        except OSError as error:
            raise PeerLost(f"rank {rank}", error.strerror or str(error)) from error
        if not count:
            raise PeerLost(f"rank {rank}", "the connection was closed")
        return count

    def wait(self, reading: int | None, writing: int | None) -> None:
        """Wait until there are bytes from one rank, or room towards another."""
        asked = {rank: select.POLLRDHUP for rank in (reading, writing) if rank is not None}
        if reading is not None:
            asked[reading] |= select.POLLIN
        if writing is not None:
            asked[writing] |= select.POLLOUT
        if asked != self._asked:
            for rank in {*asked, *self._asked}:
                self._poll.modify(self._lines[rank], asked.get(rank, select.POLLRDHUP))
            self._asked = asked
        ready = dict(self._poll.poll())
        if self._leave.fileno() in ready:
            self._leave.settle()
        self.checkpoint()
        for descriptor, events in ready.items():
            if events & _BROKEN and not events & select.POLLIN and descriptor in self._ranks:
                raise PeerLost(f"rank {self._ranks[descriptor]}", "the connection was closed")

    def interface(self) -> str:
        """Return the one interface that all connections are bound to, or an empty string."""
        names = {interface_of(line) for line in self._lines.values()}
        return names.pop() if len(names) == 1 else ""

    def address_of(self, rank: Optional[int]) -> str:
        """Return the address of another rank's end of our connection, or of our own ends."""
        if rank is None:
            return str(next(iter(self._lines.values())).getsockname()[0])
        return str(self._lines[rank].getpeername()[0])

    def acknowledge(self) -> None:
        """Let the other ends know at once what has come; the kernel may wait for 40 ms."""
        for line in self._lines.values():
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def drain(self) -> None:
        """Return when all that was sent has been acknowledged: nothing of ours is on its way.

        What a circuit loses when it is moved would be sent again only after 200 ms.
        """
        self.acknowledge()
        while any(_unacknowledged(line) for line in self._lines.values()):
            self.checkpoint()
            time.sleep(_LOOK_AGAIN)

    def bytes_on_wire(self) -> int | None:
        """Return what the ports of all connections have sent; None where one has no port."""
        return bytes_sent_by(list(self._lines.values()))

    def frames_on_wire(self) -> int | None:
        """Return how many frames the same ports have sent."""
        return frames_sent_by(list(self._lines.values()))

    def close(self) -> None:
        """Discard every connection."""
        for line in self._lines.values():
            discard(line)


def _unacknowledged(line: socket.socket) -> int:
    answer = fcntl.ioctl(line.fileno(), termios.TIOCOUTQ, b"\0" * 4)
    return int(struct.unpack("i", answer)[0])
