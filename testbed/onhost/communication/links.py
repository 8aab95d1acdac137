"""The two connections of a rank in one generation: bytes to the next rank and from the previous.

Nothing here waits without listening for the order to leave, and nothing gives up by itself: a
fibre that goes dark is no error to TCP, and whether it is one to the job is decided elsewhere.
"""

from __future__ import annotations

import select
import socket
from pathlib import Path

from ..errors import PeerLost, ProtocolError
from .control import LeaveOrder
from .sockets import discard

_BROKEN = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Links:
    """Move bytes, never more than fits at once; wait for room or for bytes.

    Every call but `close` may raise PeerLost for the neighbour whose connection broke, and `wait`
    and `checkpoint` raise Left.
    """

    def __init__(
        self,
        to_next: socket.socket,
        from_previous: socket.socket,
        generation: int,
        leave: LeaveOrder,
    ) -> None:
        self.generation = generation
        self._to_next, self._from_previous, self._leave = to_next, from_previous, leave
        self._poll = select.poll()
        self._poll.register(to_next, 0)
        self._poll.register(from_previous, 0)
        self._poll.register(leave, select.POLLIN)

    def checkpoint(self) -> None:
        """Raise Left when this generation must be left."""
        self._leave.check(self.generation)

    def send(self, data: memoryview) -> int:
        """Hand bytes to the next rank and return how many the connection took."""
        return _send(self._to_next, data, "next")

    def receive(self, room: memoryview) -> int:
        """Fill `room` from the previous rank and return how many bytes had arrived."""
        return _receive(self._from_previous, room, "previous")

    def answer(self, data: memoryview) -> int:
        """Hand bytes back to the previous rank, as `send` does to the next one."""
        return _send(self._from_previous, data, "previous")

    def hear(self, room: memoryview) -> int:
        """Take what the next rank answered, as `receive` does from the previous one."""
        return _receive(self._to_next, room, "next")

    def bytes_on_wire(self) -> int | None:
        """Return what the ports of both connections have sent since they exist, headers included.

        None where a connection is bound to no port.
        """
        return bytes_sent_by([self._to_next, self._from_previous])

    def wait(
        self,
        *,
        reading: bool = False,
        writing: bool = False,
        hearing: bool = False,
        seconds: float | None = None,
    ) -> None:
        """Wait until one of what is asked for is possible, or until `seconds` have passed.

        An answer that nobody is `hearing` for is a ProtocolError; that the next rank is gone is
        noticed in any case.
        """
        self._poll.modify(self._to_next, select.POLLIN | (select.POLLOUT if writing else 0))
        self._poll.modify(self._from_previous, select.POLLIN if reading else 0)
        ready = dict(self._poll.poll(None if seconds is None else seconds * 1e3))
        if self._leave.fileno() in ready:
            self._leave.settle()
        self.checkpoint()
        if ready.get(self._to_next.fileno(), 0) & ~select.POLLOUT and not hearing:
            self._notice_next()
        if ready.get(self._from_previous.fileno(), 0) & _BROKEN and not reading:
            raise PeerLost("previous", "the connection was reset")

    def close(self) -> None:
        """Discard both connections."""
        discard(self._to_next)
        discard(self._from_previous)

    def _notice_next(self) -> None:
        if self.hear(memoryview(bytearray(1))):
            raise ProtocolError("the next rank answered although nothing was asked")


def _send(connection: socket.socket, data: memoryview, neighbour: str) -> int:
    try:
        return connection.send(data)
    except BlockingIOError:
        return 0
    except OSError as error:
        raise PeerLost(neighbour, error.strerror or str(error)) from error


def _receive(connection: socket.socket, room: memoryview, neighbour: str) -> int:
    try:
        count = connection.recv_into(room)
    except BlockingIOError:
        return 0
    except OSError as error:
        raise PeerLost(neighbour, error.strerror or str(error)) from error
    if not count and len(room):
        raise PeerLost(neighbour, "the connection was closed")
    return count


def bytes_sent_by(lines: list[socket.socket]) -> int | None:
    """Return what the ports of connections have sent since they exist, headers included.

    None where a connection is bound to no port.
    """
    return _counted(lines, "tx_bytes")


def frames_sent_by(lines: list[socket.socket]) -> int | None:
    """Return how many frames the ports of connections have sent, as `bytes_sent_by` does."""
    return _counted(lines, "tx_packets")


def _counted(lines: list[socket.socket], counter: str) -> int | None:
    names = {interface_of(line) for line in lines}
    if not all(names):
        return None
    counters = [Path(f"/sys/class/net/{name}/statistics/{counter}") for name in names]
    return sum(int(path.read_text()) for path in counters)


def interface_of(line: socket.socket) -> str:
    """Return the name of the interface that a socket is bound to, or an empty string."""
    return line.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16).rstrip(b"\0").decode()
