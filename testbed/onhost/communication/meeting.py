"""How ranks meet: listener, callers and a handshake that both sides must pass.

Each rank listens on its port for as long as it lives and calls others, once per generation: in a
ring the next rank, in a group where everybody talks to everybody all ranks above it. A connection
counts only when its first frame proves the token, the generation and both ranks; any other is
closed and the wait goes on, so a connection of an old generation that was still under way cannot
enter the new one.
"""

from __future__ import annotations

import errno
import hmac
import selectors
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..errors import ProtocolError
from ..frames import LENGTH_BYTES, Decoder, Message, encode
from .control import LeaveOrder
from .sockets import Port, bound, discard, prepare

SYN_PATIENCE = 0.05
"""Seconds until an unanswered connect is started anew. A light path that comes up while the first
SYN is on its way loses it, and TCP itself repeats it only after a whole second."""

RETRY = 0.01
"""Seconds between a connection that was refused or closed and the next attempt."""

_LARGEST_GREETING = 4096

Address = tuple[str, int]


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


def meet(
    listener: socket.socket, port: Port, peer: Address, seat: Seat, leave: LeaveOrder
) -> tuple[socket.socket, socket.socket]:
    """Return the connections to the next and from the previous rank, when both have greeted.

    Tries until it succeeds or is told to leave (Left): how long is too long only the control plane
    can know. `port` is where the connection to `peer`, the next rank, starts.
    """
    calls = {seat.next: (port, peer)}
    meeting = _Meeting((listener,), calls, {seat.previous}, seat, leave)
    called, came = meeting.hold()
    return called[seat.next], came[seat.previous]


def meet_everybody(
    listener: socket.socket, port: Port, peers: Mapping[int, Address], seat: Seat, leave: LeaveOrder
) -> dict[int, socket.socket]:
    """Return one connection to every other rank; of two ranks the lower one calls.

    Tries as long as `meet` does. `peers` are all other ranks.
    """
    ways = {rank: (port, address) for rank, address in peers.items()}
    return meet_some((listener,), ways, seat, leave)


def meet_some(
    listeners: Sequence[socket.socket],
    peers: Mapping[int, tuple[Port, Address]],
    seat: Seat,
    leave: LeaveOrder,
) -> dict[int, socket.socket]:
    """Return one connection to each of some ranks, which all call this for one another.

    Of two ranks the lower one calls, from the port that is named beside the other's address.
    """
    above = {rank: way for rank, way in peers.items() if rank > seat.rank}
    meeting = _Meeting(listeners, above, set(peers) - set(above), seat, leave)
    called, came = meeting.hold()
    return {**called, **came}


class _Call:
    """Towards one rank: one attempt after the other, until it has welcomed us."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        port: Port,
        seat: Seat,
        rank: int,
        address: Address,
    ) -> None:
        self._selector, self._port, self._seat = selector, port, seat
        self._rank, self._address = rank, address
        self._attempt: socket.socket | None = None
        self.again_at: float | None = 0.0
        """When to try anew; None while the rank that was reached has not answered, or has."""
        self.line: socket.socket | None = None
        """The connection, once it counts."""

    def connect(self) -> None:
        """Start a new attempt, in place of the one under way."""
        self._give_up()
        try:
            self._attempt = bound(self._port)
        except OSError:  # the interface has lost its address
            return
        if self._attempt.connect_ex(self._address) not in (0, errno.EINPROGRESS):
            self._give_up()
            return
        self.again_at = time.monotonic() + SYN_PATIENCE
        self._selector.register(self._attempt, selectors.EVENT_WRITE, self._greet)

    def dismiss(self) -> None:
        """Close what there is."""
        for connection in (self._attempt, self.line):
            if connection is not None:
                discard(connection)

    def _give_up(self) -> None:
        if self._attempt is not None:
            if self._attempt in self._selector.get_map():
                self._selector.unregister(self._attempt)
            discard(self._attempt)
            self._attempt = None
        self.again_at = time.monotonic() + RETRY

    def _greet(self) -> None:
        attempt, seat = self._attempt, self._seat
        assert attempt is not None
        if not _say(attempt, seat.greeting("hello", seat.rank, self._rank)):
            self._give_up()
            return
        self.again_at = None  # the other rank answers when it is told of the generation
        hear = partial(self._welcomed, _Greeting())
        self._selector.modify(attempt, selectors.EVENT_READ, hear)

    def _welcomed(self, greeting: _Greeting) -> None:
        attempt = self._attempt
        assert attempt is not None
        message = greeting.read(attempt, self._give_up)
        if message is None:
            return
        if not self._seat.expects(message, "welcome", self._rank):
            self._give_up()
            return
        self._selector.unregister(attempt)
        self.line, self._attempt = attempt, None


class _Meeting:
    """Hold one meeting: any number of callers at the door, one attempt for each rank to call."""

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        peers: Mapping[int, tuple[Port, Address]],
        awaited: set[int],
        seat: Seat,
        leave: LeaveOrder,
    ) -> None:
        self._listeners, self._seat, self._leave = listeners, seat, leave
        self._selector = selectors.DefaultSelector()
        self._calls = {
            rank: _Call(self._selector, port, seat, rank, address)
            for rank, (port, address) in peers.items()
        }
        self._awaited = awaited
        self._callers: set[socket.socket] = set()
        self._came: dict[int, socket.socket] = {}

    def hold(self) -> tuple[dict[int, socket.socket], dict[int, socket.socket]]:
        """Return the lines to the ranks called and from those awaited, when all have greeted.

        Raise Left; nothing stays open then.
        """
        try:
            return self._hold()
        except BaseException:
            self._dismiss()
            raise
        finally:
            self._selector.close()

    def _hold(self) -> tuple[dict[int, socket.socket], dict[int, socket.socket]]:
        self._selector.register(self._leave, selectors.EVENT_READ, self._leave.settle)
        for listener in self._listeners:
            self._selector.register(listener, selectors.EVENT_READ, partial(self._accept, listener))
        while True:
            self._leave.check(self._seat.generation)
            called = {rank: call.line for rank, call in self._calls.items() if call.line}
            if len(called) == len(self._calls) and self._awaited <= self._came.keys():
                self._turn_away_callers()
                return called, self._came
            now = time.monotonic()
            for call in self._calls.values():
                if call.again_at is not None and now >= call.again_at:
                    call.connect()
            for key, _ in self._selector.select(self._patience()):
                key.data()

    def _dismiss(self) -> None:
        self._turn_away_callers()
        for call in self._calls.values():
            call.dismiss()
        for line in self._came.values():
            discard(line)

    def _turn_away_callers(self) -> None:
        for caller in self._callers:
            discard(caller)
        self._callers.clear()

    def _patience(self) -> float | None:
        due = [call.again_at for call in self._calls.values() if call.again_at is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _accept(self, listener: socket.socket) -> None:
        try:
            caller, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        prepare(caller)
        self._callers.add(caller)
        hear = partial(self._hear, caller, _Greeting())
        self._selector.register(caller, selectors.EVENT_READ, hear)

    def _hear(self, caller: socket.socket, greeting: _Greeting) -> None:
        message = greeting.read(caller, partial(self._turn_away, caller))
        if message is None:
            return
        rank = next((r for r in self._awaited if self._seat.expects(message, "hello", r)), None)
        if rank is None or not _say(caller, self._seat.greeting("welcome", self._seat.rank, rank)):
            self._turn_away(caller)
            return
        self._selector.unregister(caller)
        self._callers.remove(caller)
        if rank in self._came:  # it called again, so its first connection failed
            discard(self._came[rank])
        self._came[rank] = caller

    def _turn_away(self, caller: socket.socket) -> None:
        self._selector.unregister(caller)
        self._callers.remove(caller)
        discard(caller)


class _Greeting:
    """The first frame of a connection, read to its end and not a byte further.

    A rank that has met everybody may begin before others have read its welcome.
    """

    def __init__(self) -> None:
        self._decoder = Decoder(_LARGEST_GREETING)
        self._length = bytearray()
        self._missing = LENGTH_BYTES

    def read(self, connection: socket.socket, reject: Callable[[], None]) -> Message | None:
        """Return the greeting once it is complete; reject whatever cannot become one."""
        try:
            data = connection.recv(self._missing)
            messages = self._decoder.feed(data)
        except BlockingIOError:
            return None
        except (OSError, ProtocolError):
            messages, data = [], b""
        if messages:
            return messages[0]
        if not data:
            reject()
        self._missing -= len(data)
        if len(self._length) < LENGTH_BYTES:
            self._length += data
            if not self._missing:
                self._missing = int.from_bytes(self._length, "big")
        return None


def _say(connection: socket.socket, greeting: Message) -> bool:
    """Send a greeting, which any fresh connection has room for; tell whether that worked."""
    try:
        connection.send(encode(greeting))
    except OSError:  # refused, unreachable, or gone again
        return False
    return True
