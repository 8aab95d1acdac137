"""TCP connections by the standard library's sockets, without VISA.

Nagle's algorithm is off; a connection that the peer closed is a lost link at once, not a timeout.
"""

from __future__ import annotations

import select
import socket

from testbed.clock import Deadline, bounded
from testbed.errors import NoReply, UsageError
from testbed.resource import Tcp, place
from testbed_drivers.transports.base import BufferedTransport, open_error

_MAX_READ = 65536
_IDLE, _BETWEEN, _QUESTIONS = 30, 5, 4
"""Seconds after which an idle peer is asked whether it is there, and again; and how often."""


def dial(instrument: str, resource: str, *, baud: int, deadline: Deadline) -> TcpTransport:
    """Connect to a TCP port, given as a VISA name or as `tcp://host:port`."""
    where = place(resource)
    if not isinstance(where, Tcp):
        raise UsageError(f"{instrument}: {resource!r} is not a TCP port")
    return TcpTransport(instrument, open_socket(instrument, where, deadline))


def open_socket(instrument: str, where: Tcp, deadline: Deadline) -> socket.socket:
    """Return a connected socket without Nagle's delay.

    The deadline includes the name service, and all addresses of a name together.
    """

    def connect() -> socket.socket:
        return socket.create_connection((where.host, where.port), max(0.001, deadline.left))

    try:
        line = bounded(connect, deadline, socket.socket.close)
    except OSError as error:
        raise open_error(instrument, f"{where.host}:{where.port}", error) from error
    set_socket_options(line)
    return line


def set_socket_options(line: socket.socket) -> None:
    """Disable Nagle's delay, and detect a dead peer within a minute by keep-alive probes.

    The probes also keep an idle connection open in a firewall. Unacknowledged bytes have the same
    time limit as keep-alive probes.
    """
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _BETWEEN)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _QUESTIONS)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _BETWEEN * _QUESTIONS)


class TcpTransport(BufferedTransport):
    """One TCP connection."""

    def __init__(self, instrument: str, line: socket.socket) -> None:
        super().__init__(instrument)
        self._line = line

    def _send(self, data: bytes, deadline: Deadline) -> None:
        left = memoryview(data)
        try:
            while left:  # sendall of TLS begins its timeout anew for each piece
                self._line.settimeout(max(0.001, deadline.left))
                left = left[self._line.send(left) :]
        except TimeoutError as error:
            raise NoReply(
                self._instrument, f"did not accept all of {len(data)} bytes in time"
            ) from error
        except OSError as error:
            raise self._lost(f"sending failed: {error}") from error

    def _receive_some(self, deadline: Deadline) -> bytes:
        self._line.settimeout(max(0.001, deadline.left))
        try:
            data = self._line.recv(_MAX_READ)
        except TimeoutError as error:
            raise self._no_reply() from error
        except OSError as error:
            raise self._lost(f"receiving failed: {error}") from error
        if not data:
            raise self._lost("the other side closed the connection")
        return data

    def quiet(self) -> bool:
        """Return whether the idle line is up and holds no unread bytes."""
        if self._unread or self._line.fileno() < 0:
            return False
        ready, _, _ = select.select([self._line], [], [], 0.0)
        return not ready

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        self._line.close()
