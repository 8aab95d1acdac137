"""How neighbours in the ring meet: listener, connector and a handshake that both must pass.

Each rank listens on its port from the previous rank for as long as it lives and connects from its
port to the next one, once per generation. A connection counts only when its first frame proves the
token, the generation and both ranks; any other is closed and the wait goes on, so a connection of
an old generation that was still under way cannot enter the new ring.
"""

from __future__ import annotations

import errno
import hmac
import os
import selectors
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from .control import LeaveOrder
from .errors import ProtocolError
from .frames import Decoder, Message, encode

SYN_PATIENCE = 0.05
"""Seconds until an unanswered connect is started anew. A light path that comes up while the first
SYN is on its way loses it, and TCP itself repeats it only after a whole second."""

RETRY = 0.01
"""Seconds between a connection that was refused or closed and the next attempt."""

SEND_BUFFER = 256 << 10
"""Bytes of socket buffer towards the next rank; Linux grants twice as much. Left to itself the
kernel takes 4 MiB, which fall out of the cache before they are sent (64 MiB over four ranks on two
cores: 105 ms instead of 75) and delay a new generation by what the old one had queued."""

_LARGEST_GREETING = 4096


@dataclass(frozen=True)
class Port:
    """One of the host's fabric ports; without an interface the routing table decides."""

    interface: str | None
    address: str


@dataclass(frozen=True)
class Seat:
    """One rank's place in one generation of the ring, and the token that proves it."""

    token: str
    generation: int
    rank: int
    ranks: int

    @property
    def next(self) -> int:
        """Return the rank this one sends to."""
        return (self.rank + 1) % self.ranks

    @property
    def previous(self) -> int:
        """Return the rank this one receives from."""
        return (self.rank - 1) % self.ranks

    def greeting(self, kind: str, sender: int, receiver: int) -> Message:
        """Return the frame by which `sender` greets `receiver`, with its proof of the token."""
        claim = f"{kind} {self.generation} {self.ranks} {sender} {receiver}"
        proof = hmac.new(self.token.encode(), claim.encode(), "sha256").hexdigest()
        return {"ring": kind, "generation": self.generation, "from": sender, "proof": proof}

    def expects(self, message: Message, kind: str, sender: int) -> bool:
        """Tell whether `message` is the greeting that `sender` owes this rank."""
        expected = self.greeting(kind, sender, self.rank)
        proof = str(message.get("proof"))
        return hmac.compare_digest(proof.encode(), str(expected["proof"]).encode())


def listen(port: Port) -> socket.socket:
    """Return a non-blocking listener on a free TCP port of one fabric port."""
    listener = _bound(port)
    listener.listen(16)
    return listener


def meet(
    listener: socket.socket, port: Port, peer: tuple[str, int], seat: Seat, leave: LeaveOrder
) -> tuple[socket.socket, socket.socket]:
    """Return the connections to the next and from the previous rank, when both have greeted.

    Tries until it succeeds or is told to leave (Left): how long is too long only the control plane
    can know. `port` is where the connection to `peer`, the next rank, starts.
    """
    meeting = _Meeting(listener, port, peer, seat, leave)
    try:
        return meeting.hold()
    except BaseException:
        meeting.dismiss()
        raise
    finally:
        meeting.selector.close()


def discard(connection: socket.socket) -> None:
    """Close a connection and throw away what it still had to send; safe to call twice.

    Bytes of an abandoned collective would compete with the next generation for the same link.
    """
    if connection.fileno() < 0:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class _Meeting:
    """Hold one meeting: any number of callers at the door, one attempt to reach the next rank."""

    def __init__(
        self,
        listener: socket.socket,
        port: Port,
        peer: tuple[str, int],
        seat: Seat,
        leave: LeaveOrder,
    ) -> None:
        self._listener, self._port, self._peer = listener, port, peer
        self._seat, self._leave = seat, leave
        self._attempt: socket.socket | None = None
        self._again_at: float | None = 0.0
        self._callers: set[socket.socket] = set()
        self._to_next: socket.socket | None = None
        self._from_previous: socket.socket | None = None
        self.selector = selectors.DefaultSelector()

    def hold(self) -> tuple[socket.socket, socket.socket]:
        """Return once both neighbours have greeted; raise Left."""
        self.selector.register(self._leave, selectors.EVENT_READ, self._leave.settle)
        self.selector.register(self._listener, selectors.EVENT_READ, self._accept)
        while True:
            self._leave.check(self._seat.generation)
            if self._to_next is not None and self._from_previous is not None:
                self._turn_away_callers()
                return self._to_next, self._from_previous
            if self._again_at is not None and time.monotonic() >= self._again_at:
                self._connect()
            for key, _ in self.selector.select(self._patience()):
                key.data()

    def dismiss(self) -> None:
        """Close every connection of this meeting."""
        self._turn_away_callers()
        for connection in (self._attempt, self._to_next, self._from_previous):
            if connection is not None:
                discard(connection)

    def _turn_away_callers(self) -> None:
        for caller in self._callers:
            discard(caller)
        self._callers.clear()

    def _patience(self) -> float | None:
        if self._again_at is None:
            return None
        return max(0.0, self._again_at - time.monotonic())

    # --- towards the next rank

    def _connect(self) -> None:
        self._give_up()
        try:
            self._attempt = _bound(self._port)
        except OSError:  # the interface has lost its address
            return
        if self._attempt.connect_ex(self._peer) not in (0, errno.EINPROGRESS):
            self._give_up()
            return
        self._again_at = time.monotonic() + SYN_PATIENCE
        self.selector.register(self._attempt, selectors.EVENT_WRITE, self._greet)

    def _give_up(self) -> None:
        if self._attempt is not None:
            if self._attempt in self.selector.get_map():
                self.selector.unregister(self._attempt)
            discard(self._attempt)
            self._attempt = None
        self._again_at = time.monotonic() + RETRY

    def _greet(self) -> None:
        attempt, seat = self._attempt, self._seat
        assert attempt is not None
        if not _say(attempt, seat.greeting("hello", seat.rank, seat.next)):
            self._give_up()
            return
        self._again_at = None  # the next rank answers when it is told of the generation
        hear = partial(self._welcomed, Decoder(_LARGEST_GREETING))
        self.selector.modify(attempt, selectors.EVENT_READ, hear)

    def _welcomed(self, decoder: Decoder) -> None:
        attempt = self._attempt
        assert attempt is not None
        message = self._read(attempt, decoder, self._give_up)
        if message is None:
            return
        if not self._seat.expects(message, "welcome", self._seat.next):
            self._give_up()
            return
        self.selector.unregister(attempt)
        self._to_next, self._attempt = attempt, None

    # --- from the previous rank

    def _accept(self) -> None:
        try:
            caller, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        _prepare(caller)
        self._callers.add(caller)
        hear = partial(self._hear, caller, Decoder(_LARGEST_GREETING))
        self.selector.register(caller, selectors.EVENT_READ, hear)

    def _hear(self, caller: socket.socket, decoder: Decoder) -> None:
        seat = self._seat
        message = self._read(caller, decoder, partial(self._turn_away, caller))
        if message is None:
            return
        welcome = seat.greeting("welcome", seat.rank, seat.previous)
        if not seat.expects(message, "hello", seat.previous) or not _say(caller, welcome):
            self._turn_away(caller)
            return
        self.selector.unregister(caller)
        self._callers.remove(caller)
        if self._from_previous is not None:  # it called again, so its first connection failed
            discard(self._from_previous)
        self._from_previous = caller

    def _turn_away(self, caller: socket.socket) -> None:
        self.selector.unregister(caller)
        self._callers.remove(caller)
        discard(caller)

    def _read(
        self, connection: socket.socket, decoder: Decoder, reject: Callable[[], None]
    ) -> Message | None:
        """Return the greeting once it is complete; reject whatever cannot become one."""
        try:
            data = connection.recv(_LARGEST_GREETING)
            messages = decoder.feed(data)
        except BlockingIOError:
            return None
        except (OSError, ProtocolError):
            messages, data = [], b""
        if messages and decoder.is_empty and len(messages) == 1:
            return messages[0]
        if messages or not data:
            reject()
        return None


def _say(connection: socket.socket, greeting: Message) -> bool:
    """Send a greeting, which any fresh connection has room for; tell whether that worked."""
    try:
        connection.send(encode(greeting))
    except OSError:  # refused, unreachable, or gone again
        return False
    return True


def _bound(port: Port) -> socket.socket:
    """Return a socket that uses one fabric port and no other, whatever the routing table says."""
    unbound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if port.interface is not None:
            name = os.fsencode(port.interface)
            unbound.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name)
        unbound.bind((port.address, 0))
    except OSError:
        unbound.close()
        raise
    _prepare(unbound)
    return unbound


def _prepare(connection: socket.socket) -> None:
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
