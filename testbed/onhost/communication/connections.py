"""The connections of one rank in one generation, one per peer.

Every wait ends on an order to leave the generation, and there are no other time limits: a dark
fibre is no error to TCP, and the control plane decides whether it is one for the job.
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
from pathlib import Path
from typing import Optional, Union

from ..errors import PeerLost, ProtocolError
from .control import LeaveOrder
from .sockets import SEND_BUFFER, discard

Peer = Union[int, str]
"""Whom a connection leads to: a rank, or in a ring one of NEXT and PREVIOUS (of two ranks both are
the same rank)."""

Need = Union[None, float, tuple[()], tuple[Peer, int]]
"""What a transfer waits for: MOVED, BLOCKED, an instant of the monotonic clock, or the peer whose
connection must become readable (POLLIN) or writable (POLLOUT)."""

MOVED = None
"""Nothing: it has moved something and can go on at once."""

BLOCKED = ()
"""Another transfer of the same rank, which must have moved something first."""

NEXT, PREVIOUS = "next", "previous"
"""The neighbours in a ring: a rank sends to the next one and receives from the previous one."""

_TCP_NOTSENT_LOWAT = 25  # Python knows it from 3.12 on
_UNSENT = 2.5e-3
"""Seconds' worth of bytes that may wait in a connection before they are sent. What waits there
while we turn to the next peer would still share the port with what that one gets."""

_NO_LIMIT = 0x7FFFFFFF

_AHEAD = 30e-3
"""Seconds' worth of send buffer towards the only peer of a schedule: a busy machine may give us no
processor for so long, and the line is to carry something all the same."""

_LARGEST = 6 << 20
"""Bytes above which a send buffer falls out of the cache, and a line so fast needs none."""

_LOOK_AGAIN = 100e-6

BYTES, FRAMES = "tx_bytes", "tx_packets"
"""Counters of what a port has sent, headers included."""

DROPPED = "tx_dropped", "rx_dropped"
"""Counters of frames that a port had and lost."""

_TOTAL_RETRANS = 100
"""Where struct tcp_info has the number of segments that were sent again."""

_BROKEN = select.POLLERR | select.POLLHUP | select.POLLNVAL | select.POLLRDHUP


class PeerConnections:
    """Sends and receives as many bytes as possible without blocking; waits for readiness.

    Every call but `close` may raise PeerLost for the peer whose connection broke, and `wait` and
    `raise_if_left` raise Left.
    """

    def __init__(
        self,
        sockets: Mapping[int, socket.socket] | Mapping[str, socket.socket],
        generation: int,
        leave: LeaveOrder,
        names: Optional[Mapping[Peer, str]] = None,
        beside: Optional[Mapping[str, socket.socket]] = None,
    ) -> None:
        """Take the sockets by peer, and what peers are called where a number is not their rank.

        Nothing is moved over those `beside`, but that one of them broke is noticed, too.
        """
        self.generation = generation
        self._names = names or {}
        self._sockets: dict[Peer, socket.socket] = dict(sockets.items())
        self._leave = leave
        self._unsent = _NO_LIMIT
        self._limits: dict[Peer, int] = {}
        self._peers: dict[int, Peer] = {one.fileno(): peer for peer, one in sockets.items()}
        self._poll = select.poll()
        self._poll.register(leave, select.POLLIN)
        self._left = (leave.fileno(), select.POLLIN)
        for name, connection in (beside or {}).items():
            self._peers[connection.fileno()] = name
        for descriptor in self._peers:
            self._poll.register(descriptor, select.POLLRDHUP)
        self._polled: dict[Peer, int] = {}
        self._rate: Optional[float] = None

    def raise_if_left(self) -> None:
        """Raise Left when this generation must be left."""
        self._leave.check(self.generation)

    def send(self, peer: Peer, data: memoryview | bytes, *more: memoryview) -> int:
        """Send bytes to a peer without blocking; return how many were accepted."""
        try:
            connection = self._sockets[peer]
            return connection.sendmsg((data, *more)) if more else connection.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise PeerLost(self._name(peer), error.strerror or str(error)) from error

    def receive(self, peer: Peer, buffer: memoryview, *more: memoryview) -> int:
        """Receive bytes from a peer into non-empty buffers without blocking; return how many."""
        try:
            connection = self._sockets[peer]
            if more:
                count = connection.recvmsg_into((buffer, *more))[0]
            else:
                count = connection.recv_into(buffer)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise PeerLost(self._name(peer), error.strerror or str(error)) from error
        if not count:
            raise PeerLost(self._name(peer), "the connection was closed")
        return count

    def wait(self, needs: Sequence[Need]) -> None:
        """Wait until one of the needs is met: a connection is ready, or an instant has come.

        A broken connection is detected even if it is in none of the needs. Raise ProtocolError when
        all needs are BLOCKED, since the wait would never end.
        """
        events: dict[Peer, int] = {}
        until: Optional[float] = None
        for need in needs:
            if isinstance(need, float):
                until = need if until is None else min(until, need)
            elif need:
                peer, asked = need
                events[peer] = events.get(peer, select.POLLRDHUP) | asked
        if not events and until is None:
            raise ProtocolError("each transfer of this rank waits for another one of this rank")
        if events != self._polled:
            for peer in {*events, *self._polled}:
                self._poll.modify(self._sockets[peer], events.get(peer, select.POLLRDHUP))
            self._polled = events
        ready = self._poll.poll(None if until is None else max(0.0, until - time.monotonic()) * 1e3)
        if self._left in ready:
            self._leave.clear()
        self.raise_if_left()
        for descriptor, found in ready:
            if found & _BROKEN and not found & select.POLLIN and descriptor in self._peers:
                raise PeerLost(self._name(self._peers[descriptor]), "the connection was closed")

    def size_buffers(self, rate: float) -> None:
        """Set the size of send buffers for lines of `rate` bytes per second.

        Receive buffers are left to the kernel: one that shrinks below the window that it advertised
        drops arriving data, and TCP retransmits it after 200 ms.
        """
        self._rate = rate
        self._unsent = int(rate * _UNSENT)
        ahead = int(rate * _AHEAD)
        for peer, connection in self._sockets.items():
            if SEND_BUFFER < ahead <= _LARGEST:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ahead)
            self._limit(peer, self._unsent)

    def switch(self, sockets: Mapping[Peer, socket.socket]) -> None:
        """Move data over other connections to the same peers; those before stay open.

        Nothing may be under way. That one of either breaks is noticed still.
        """
        for peer in self._polled:
            self._poll.modify(self._sockets[peer], select.POLLRDHUP)
        self._polled = {}
        for peer, one in sockets.items():
            self._peers[one.fileno()] = peer
            self._poll.register(one, select.POLLRDHUP)
        self._sockets = dict(sockets)
        self._limits = {}
        if self._rate is not None:
            self.size_buffers(self._rate)

    def limit_unsent(self, peer: Peer, *, limited: bool) -> None:
        """Limit the unsent bytes in a connection, unless it is the only one in use.

        Without a limit the line stays busy even if this process is not scheduled in time; with
        several peers, waiting data to one of them would delay the others.
        """
        self._limit(peer, self._unsent if limited else _NO_LIMIT)

    def _limit(self, peer: Peer, unsent: int) -> None:
        if self._limits.get(peer, _NO_LIMIT) != unsent:
            self._limits[peer] = unsent
            with contextlib.suppress(OSError):  # a kernel without it sends as fast, less in order
                self._sockets[peer].setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, unsent)

    def interface(self, peer: Optional[Peer] = None) -> str:
        """Return the interface to which the connection of a peer is bound, or an empty string.

        For None it is that of all connections.
        """
        of = self._sockets.values() if peer is None else [self._sockets[peer]]
        names = {interface_of(connection) for connection in of}
        return names.pop() if len(names) == 1 else ""

    def address_of(self, peer: Optional[Peer]) -> str:
        """Return the address of a peer's end of the connection, or of our own end for None."""
        if peer is None:
            return str(next(iter(self._sockets.values())).getsockname()[0])
        return str(self._sockets[peer].getpeername()[0])

    def acknowledge(self) -> None:
        """Send TCP acknowledgements at once, which the kernel may delay by 40 ms."""
        for connection in self._sockets.values():
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def drain(self) -> None:
        """Wait until all sent data has been acknowledged.

        TCP would retransmit data that is lost in a change of circuits only after 200 ms.
        """
        self.acknowledge()
        while any(unacknowledged(connection) for connection in self._sockets.values()):
            self.raise_if_left()
            time.sleep(_LOOK_AGAIN)

    def unacknowledged(self, peer: Peer) -> int:
        """Return how many bytes sent to a peer were not acknowledged yet."""
        return unacknowledged(self._sockets[peer])

    def sent_on_wire(self, *counters: str) -> list[int]:
        """Return the sum of kernel counters over the ports of all connections.

        They count since the ports were created; the list is empty where a connection is not bound
        to a port.
        """
        names = {interface_of(connection) for connection in self._sockets.values()}
        if not all(names):
            return []
        found = [counted(name, *counters) for name in names]
        return [sum(of_port) for of_port in zip(*found)]  # noqa: B905 - Python 3.9

    def close(self) -> None:
        """Close every connection and discard unsent data."""
        for connection in self._sockets.values():
            discard(connection)

    def _name(self, peer: Peer) -> str:
        return self._names.get(peer) or (peer if isinstance(peer, str) else f"rank {peer}")


def retransmitted(connection: socket.socket) -> int:
    """Return how many segments TCP has sent again since a connection was made (tcp_info, Linux)."""
    known = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TOTAL_RETRANS + 4)
    return int(struct.unpack_from("=I", known, _TOTAL_RETRANS)[0])


def counted(interface: str, *counters: str) -> list[int]:
    """Return kernel counters of a network interface, since it was created."""
    port = Path("/sys/class/net", interface, "statistics")
    return [int((port / one).read_text()) for one in counters]


def unacknowledged(connection: socket.socket) -> int:
    """Return how many bytes of a connection were sent and not acknowledged yet."""
    answer = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, b"\0" * 4)
    return int(struct.unpack("i", answer)[0])


def interface_of(connection: socket.socket) -> str:
    """Return the name of the interface that a socket is bound to, or an empty string."""
    name = connection.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
    return name.rstrip(b"\0").decode()
