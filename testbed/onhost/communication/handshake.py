"""Connect the ranks of one generation, with a handshake that authenticates both sides.

Each rank listens on its port for as long as it lives and connects to others, once per generation:
in a ring to the next rank, in a group where each is connected to each to all ranks above it. A
connection counts only when its first frame proves the token, the generation and both ranks; any
other is closed and the wait continues, so a late connection of an old generation cannot be used in
the new one.
"""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Optional

from ..frames import Decoder, Message, encode
from .connections import NEXT, PREVIOUS
from .control import LeaveOrder
from .rank_identity import LARGEST_GREETING, RankIdentity, read_greeting
from .sockets import Port, bound, discard, prepare

SYN_PATIENCE = 0.05
"""Seconds until an unanswered connect is started anew. A light path that comes up while the first
SYN is on its way loses it, and TCP itself repeats it only after a whole second."""

RETRY = 0.01
"""Seconds between a connection that was refused or closed and the next attempt."""

Address = tuple[str, int]

Sockets = dict[int, socket.socket]


def connect_neighbours(
    listeners: Sequence[socket.socket],
    to_next: tuple[Port, Address],
    identity: RankIdentity,
    leave: LeaveOrder,
) -> dict[str, socket.socket]:
    """Return the connections to the NEXT and from the PREVIOUS rank of a ring.

    Tries until it succeeds or is ordered to leave (raises Left): only the control plane decides how
    long to wait. `to_next` is the port from which the next rank is reached, and where that listens.
    """
    peers = {identity.next: to_next}
    handshakes = _Handshakes(listeners, peers, {identity.previous}, identity, leave)
    outgoing, incoming = handshakes.complete()
    return {NEXT: outgoing[identity.next], PREVIOUS: incoming[identity.previous]}


def connect_peers(
    listeners: Sequence[socket.socket],
    peers: Mapping[int, tuple[Port, Address]],
    identity: RankIdentity,
    leave: LeaveOrder,
    until: Optional[float] = None,
) -> Sockets:
    """Return one connection to each of the given ranks, which all call this for one another.

    Of two ranks the lower one connects, from the port that is named beside the other's address.
    Tries as long as `connect_neighbours` does, or until an instant of the monotonic clock; raise
    TimeoutError then.
    """
    above = {rank: path for rank, path in peers.items() if rank > identity.rank}
    handshakes = _Handshakes(listeners, above, set(peers) - set(above), identity, leave)
    outgoing, incoming = handshakes.complete(until)
    return {**outgoing, **incoming}


class _Outgoing:
    """The connection to one rank: one attempt after the other, until that rank has welcomed us."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        path: tuple[Port, Address],
        identity: RankIdentity,
        rank: int,
    ) -> None:
        self._selector, self._identity, self._rank = selector, identity, rank
        self._port, self._address = path
        self._attempt: Optional[socket.socket] = None
        self.retry_at: Optional[float] = 0.0
        """When to try anew; None while the rank that was reached has not answered, or has."""
        self.connection: Optional[socket.socket] = None
        """The connection, once its handshake is complete."""

    def connect(self) -> None:
        """Start a new connection attempt, replacing the one in progress."""
        self._give_up()
        try:
            self._attempt = bound(self._port)
        except OSError:  # the interface has lost its address
            return
        if self._attempt.connect_ex(self._address) not in (0, errno.EINPROGRESS):
            self._give_up()
            return
        self.retry_at = time.monotonic() + SYN_PATIENCE
        self._selector.register(self._attempt, selectors.EVENT_WRITE, self._greet)

    def close(self) -> None:
        """Close all sockets of the handshake."""
        for connection in (self._attempt, self.connection):
            if connection is not None:
                discard(connection)

    def _give_up(self) -> None:
        if self._attempt is not None:
            if self._attempt in self._selector.get_map():
                self._selector.unregister(self._attempt)
            discard(self._attempt)
            self._attempt = None
        self.retry_at = time.monotonic() + RETRY

    def _greet(self) -> None:
        attempt, identity = self._attempt, self._identity
        assert attempt is not None
        if not _send(attempt, identity.greeting("hello", identity.rank, self._rank)):
            self._give_up()
            return
        self.retry_at = None  # the other rank answers when it is told of the generation
        read = partial(self._read_welcome, Decoder(LARGEST_GREETING))
        self._selector.modify(attempt, selectors.EVENT_READ, read)

    def _read_welcome(self, decoder: Decoder) -> None:
        attempt = self._attempt
        assert attempt is not None
        message = read_greeting(attempt, decoder, self._give_up)
        if message is None:
            return
        if not self._identity.accepts(message, "welcome", self._rank):
            self._give_up()
            return
        self._selector.unregister(attempt)
        self.connection, self._attempt = attempt, None


class _Handshakes:
    """All handshakes of one rank in one generation: outgoing ones, and those of `awaited` ranks."""

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        peers: Mapping[int, tuple[Port, Address]],
        awaited: set[int],
        identity: RankIdentity,
        leave: LeaveOrder,
    ) -> None:
        self._listeners, self._identity, self._leave = listeners, identity, leave
        self._selector = selectors.DefaultSelector()
        self._outgoing = {
            rank: _Outgoing(self._selector, path, identity, rank) for rank, path in peers.items()
        }
        self._awaited = awaited
        self._unproved: set[socket.socket] = set()
        self._incoming: Sockets = {}

    def complete(self, until: Optional[float] = None) -> tuple[Sockets, Sockets]:
        """Return the outgoing and incoming connections once all handshakes are complete.

        Raise Left, or at an instant TimeoutError, after closing every socket.
        """
        try:
            return self._complete(until)
        except BaseException:
            for connection in (*self._unproved, *self._incoming.values()):
                discard(connection)
            for outgoing in self._outgoing.values():
                outgoing.close()
            raise
        finally:
            self._selector.close()

    def _complete(self, until: Optional[float]) -> tuple[Sockets, Sockets]:
        self._selector.register(self._leave, selectors.EVENT_READ, self._leave.clear)
        for listener in self._listeners:
            self._selector.register(listener, selectors.EVENT_READ, partial(self._accept, listener))
        while True:
            self._leave.check(self._identity.generation)
            done = {r: out.connection for r, out in self._outgoing.items() if out.connection}
            if len(done) == len(self._outgoing) and self._awaited <= self._incoming.keys():
                for connection in self._unproved:
                    discard(connection)
                return done, self._incoming
            now = time.monotonic()
            if until is not None and now >= until:
                raise TimeoutError
            for outgoing in self._outgoing.values():
                if outgoing.retry_at is not None and now >= outgoing.retry_at:
                    outgoing.connect()
            for key, _ in self._selector.select(self._time_left(until)):
                key.data()

    def _time_left(self, until: Optional[float]) -> Optional[float]:
        due = [out.retry_at for out in self._outgoing.values() if out.retry_at is not None]
        due += [] if until is None else [until]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        prepare(connection)
        self._unproved.add(connection)
        read = partial(self._read_hello, connection, Decoder(LARGEST_GREETING))
        self._selector.register(connection, selectors.EVENT_READ, read)

    def _read_hello(self, connection: socket.socket, decoder: Decoder) -> None:
        message = read_greeting(connection, decoder, partial(self._reject, connection))
        if message is None:
            return
        identity = self._identity
        rank = next((r for r in self._awaited if identity.accepts(message, "hello", r)), None)
        if rank is None or not _send(connection, identity.greeting("welcome", identity.rank, rank)):
            self._reject(connection)
            return
        self._selector.unregister(connection)
        self._unproved.remove(connection)
        if rank in self._incoming:  # it connects again, so its first connection failed
            discard(self._incoming[rank])
        self._incoming[rank] = connection

    def _reject(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        self._unproved.remove(connection)
        discard(connection)


def _send(connection: socket.socket, greeting: Message) -> bool:
    """Send a greeting, which any fresh connection has space for; tell whether that worked."""
    try:
        connection.send(encode(greeting))
    except OSError:  # refused, unreachable, or gone again
        return False
    return True
