"""An all-to-all over circuits that follow a table of time slots, as in RotorNet (SIGCOMM 2017).

A rank asks for no circuits. It is told which are lit and for how long, sends to the peer that it is
joined with what fits into that time, and keeps what it has for others until their slot comes.

A connection lives for one slot. What a change of circuits cuts off, TCP would repeat after 200 ms,
then at ever longer intervals that seldom meet a slot. So each rank begins a slot by its head: the
number of its exchange, and how many bytes of it have come from that peer; the peer sends from there
on, in frames. A rank sends its head again when all has come, and when it begins another exchange.
After the last exchange it serves its peers until it is told over the management network that all
have finished: its peers cannot repeat a last head that was lost once their processes have ended.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional

from ..errors import PeerLost, ProtocolError
from .circuits import CircuitGroup, FabricPorts
from .connections import PeerConnections
from .control import Control, TimeSlot
from .handshake import Address, connect_peers
from .rank_identity import RankIdentity

_HEAD = struct.Struct("!QQ")
_LENGTH = struct.Struct("!I")
"""Of the data that follows; 0 where a head follows."""

_FRAME = 64 << 10

_UNKNOWN_RATE = 1e12

_LOOK_AGAIN = 1e-3
"""Seconds after which a rank that may not send more at present looks how much has arrived."""


@dataclass
class _Transfer:
    """What a rank sends to one peer in an exchange, and receives from it."""

    exchange: int
    outgoing: memoryview
    incoming: memoryview
    received: int = 0
    is_delivered: bool = False
    """The peer has said that all has come."""

    @property
    def has_come(self) -> bool:
        """Return whether all was received."""
        return self.received == len(self.incoming)

    @property
    def is_over(self) -> bool:
        """Return whether all was received on both sides."""
        return self.has_come and self.is_delivered


class _Line:
    """The connection to one peer in one slot; no call blocks."""

    def __init__(self, connections: PeerConnections, peer: int, transfer: _Transfer) -> None:
        self.first: Optional[int] = None
        """The exchange that the peer was in when the slot began."""
        self.transfer = transfer
        self._connections, self._peer = connections, peer
        self._theirs: Optional[tuple[int, int]] = None
        self._place: Optional[int] = None
        """What is sent next of the outgoing data; None while the peer is in another exchange."""
        self._unsent: list[memoryview] = []
        self._read, self._wanted = bytearray(), _LENGTH.size
        self._left = 0
        """Bytes of a frame of data that are still to come."""
        self.begin(transfer)

    def begin(self, transfer: _Transfer) -> None:
        """Go on with a transfer, and tell the peer."""
        self.transfer, self._place = transfer, None
        self._say_head()
        if self._theirs is not None:
            self._take_head(*self._theirs)

    def send(self, limit: float) -> bool:
        """Send frames up to `limit` unacknowledged bytes; return whether anything was sent."""
        moved = False
        while self._unsent or self._has_frame(limit):
            if not self._unsent:
                self._unsent = self._frame()
            sent = self._connections.send(self._peer, self._unsent[0])
            self._unsent[0] = self._unsent[0][sent:]
            if self._unsent[0]:
                return moved or sent > 0
            del self._unsent[0]
            moved = True
        return moved

    def receive(self) -> bool:
        """Receive what has come; return whether it was anything."""
        if self._left:
            at = self.transfer.received
            into = self.transfer.incoming[at : at + self._left]
            if not into:
                raise ProtocolError(f"rank {self._peer} sends more than was expected")
            count = self._connections.receive(self._peer, into)
            self.transfer.received += count
            self._left -= count
            if count and self.transfer.has_come:
                self._say_head()
            return count > 0
        more = memoryview(bytearray(self._wanted - len(self._read)))
        count = self._connections.receive(self._peer, more)
        self._read += more[:count]
        if len(self._read) == self._wanted:
            self._take_read()
        return count > 0

    def events(self, limit: float) -> int:
        """Return what must come before it can go on, as `poll` names it."""
        can_send = self._unsent or self._has_frame(limit)
        return select.POLLIN | (select.POLLOUT if can_send else 0)

    def is_limited(self, limit: float) -> bool:
        """Tell whether only what is unacknowledged keeps it from sending."""
        return not self._unsent and self._has_frame(float("inf")) and not self._has_frame(limit)

    def _has_frame(self, limit: float) -> bool:
        has_more = self._place is not None and self._place < len(self.transfer.outgoing)
        return has_more and self._connections.unacknowledged(self._peer) < limit

    def _frame(self) -> list[memoryview]:
        assert self._place is not None
        data = self.transfer.outgoing[self._place : self._place + _FRAME]
        self._place += len(data)
        return [memoryview(_LENGTH.pack(len(data))), data]

    def _say_head(self) -> None:
        head = _HEAD.pack(self.transfer.exchange, self.transfer.received)
        self._unsent.append(memoryview(_LENGTH.pack(0) + head))

    def _take_read(self) -> None:
        if self._wanted == _HEAD.size:
            self._take_head(*_HEAD.unpack(self._read))
        else:
            (self._left,) = _LENGTH.unpack(self._read)
        is_head = self._wanted == _LENGTH.size and not self._left
        self._read, self._wanted = bytearray(), _HEAD.size if is_head else _LENGTH.size

    def _take_head(self, exchange: int, received: int) -> None:
        """Send from where the peer is; one that is in a later exchange has got all of this one."""
        if self.first is None:
            self.first = exchange
        self._theirs = exchange, received
        mine, size = self.transfer.exchange, len(self.transfer.outgoing)
        self.transfer.is_delivered |= exchange > mine or (exchange, received) == (mine, size)
        if exchange == mine and self._place is None:
            self._place = received


@dataclass(frozen=True)
class SlotUse:
    """What a rank received in one time slot, of which it heard at `begin` on its clock."""

    circuits: int
    begin: float
    dark: float
    received: int
    is_full: bool
    """Both ranks were in the exchange as the slot began, and there was more than fitted in."""


class SlotGroup(CircuitGroup):
    """All ranks of one generation, each pair of them joined in one of several time slots.

    `circuits` are those of the ring, in which they begin, and of each slot. `guard` is how many
    seconds before the end of a slot nothing more is sent.
    """

    _ports: FabricPorts
    _addresses: Mapping[int, tuple[Address, Address]]
    _identity: RankIdentity
    _guard: float
    _rate = _UNKNOWN_RATE
    _number = 0
    """Of the exchange."""
    _at = 0
    """The number of the slot that the lines are of."""
    _lines: Mapping[int, _Line] = {}
    _connections: Optional[PeerConnections] = None

    @classmethod
    def connect(
        cls,
        ports: FabricPorts,
        members: Mapping[int, Mapping[str, Any]],
        identity: RankIdentity,
        options: Mapping[str, Any],
        control: Control,
    ) -> SlotGroup:
        """Connect to the neighbours in the ring; others are connected to in their slots."""
        group = super().connect(ports, members, identity, {**options, "tour": ()}, control)
        assert isinstance(group, SlotGroup)
        addresses = {r: ((m["address"], m["port"]), tuple(m["second"])) for r, m in members.items()}
        group._ports, group._addresses, group._identity = ports, addresses, identity
        group._guard = options["guard"]
        return group

    def expect_rate(self, rate: float) -> None:
        """Send no more than a line of `rate` bytes a second carries before the end of a slot."""
        self._rate = rate

    def exchange(
        self, outgoing: Mapping[int, memoryview], incoming: Mapping[int, memoryview]
    ) -> list[SlotUse]:
        """Send each peer its data and receive that of each; every rank calls this. Raise Left.

        Return when all has come, and all peers have said so.
        """
        transfers = self._begin(outgoing, incoming)
        began, after, uses = time.monotonic(), 0, list[SlotUse]()
        while not all(one.is_over for one in transfers.values()):
            slot = self._next_slot(after)
            after = slot.number
            uses += self._serve(slot, transfers, began)
        return uses

    def finish(self, step: int) -> None:
        """Answer peers until every rank has finished a step, the last one. Raise Left."""
        peers = [rank for rank in range(self.ranks) if rank != self.rank]
        nothing = dict.fromkeys(peers, memoryview(b""))
        transfers, after = self._begin(nothing, nothing), 0
        while (slot := self._next_slot(after)).finished < step:
            after = slot.number
            self._serve(slot, transfers, slot.begin)

    def close(self) -> None:
        """Close every connection and discard unsent data."""
        self._close_lines()
        super().close()

    def _close_lines(self) -> None:
        if self._connections is not None:
            self._connections.close()
        self._connections, self._lines = None, {}

    def _begin(
        self, outgoing: Mapping[int, memoryview], incoming: Mapping[int, memoryview]
    ) -> dict[int, _Transfer]:
        """Begin another exchange, and tell the peers that are joined at present."""
        self._number += 1
        transfers = {
            peer: _Transfer(self._number, data, incoming[peer]) for peer, data in outgoing.items()
        }
        for peer, line in self._lines.items():
            line.begin(transfers[peer])
        return transfers

    def _serve(
        self, slot: TimeSlot, transfers: Mapping[int, _Transfer], began: float
    ) -> list[SlotUse]:
        """Send and receive in a slot; return its use, or nothing where no peer was met."""
        if not self._circuits[slot.circuits]:  # of an odd number of ranks, one has no peer
            return []
        try:
            self._open(slot, transfers)
            return [self._use(slot, began)]
        except (PeerLost, TimeoutError):
            self._close_lines()  # it has gone on to its next slot, or has not come to this
            return []

    def _next_slot(self, after: int) -> TimeSlot:
        """Wait for a slot later than that of a number, with time left to send in it."""
        control, guard = self._control, self._guard
        found: list[TimeSlot] = []

        def is_there() -> bool:
            slot = control.slot
            if slot is not None and slot.number > after and time.monotonic() < slot.until - guard:
                found.append(slot)
            return bool(found)

        control.wait_until(is_there, self.generation)
        return found[0]

    def _open(self, slot: TimeSlot, transfers: Mapping[int, _Transfer]) -> None:
        """Connect to the peers of a slot, unless that was done in it; raise TimeoutError."""
        if self._at == slot.number:
            return
        self._close_lines()
        self._at = slot.number
        circuits = self._circuits[slot.circuits]
        paths = {}
        for rank, ends in circuits.items():
            own, other = sorted(ends, key=lambda end: end[0] != self.rank)
            paths[rank] = (self._ports.ports[own[1]], self._addresses[rank][other[1]])
        # What is left of an earlier slot in the listeners cannot prove that it is of this one.
        identity = replace(self._identity, token=f"{self._identity.token} {slot.number}")
        leave, listeners = self._control.leave, self._ports.listeners
        sockets = connect_peers(listeners, paths, identity, leave, slot.until - self._guard)
        self._connections = PeerConnections(sockets, self.generation, leave)
        self._lines = {peer: _Line(self._connections, peer, transfers[peer]) for peer in sockets}

    def _use(self, slot: TimeSlot, began: float) -> SlotUse:
        """Send and receive until the slot is over, or nothing is left to do in it."""
        lines, connections = list(self._lines.values()), self._connections
        before = sum(line.transfer.received for line in lines)
        while connections is not None and not all(line.transfer.is_over for line in lines):
            now = time.monotonic()
            is_over = now >= slot.until or self._control.slot is not slot
            limit = 0.0 if is_over else (slot.until - self._guard - now) * self._rate
            moved = sum(line.receive() for line in lines) > 0
            if is_over and not moved:
                break
            moved |= sum(line.send(limit) for line in lines) > 0
            if not moved:
                waits = any(line.is_limited(limit) for line in lines)
                needs = [(peer, line.events(limit)) for peer, line in self._lines.items()]
                until = min(slot.until, now + _LOOK_AGAIN) if waits else slot.until
                connections.wait([*needs, until])
        received = sum(line.transfer.received for line in lines) - before
        is_full = began <= slot.begin and all(
            line.first == self._number and not line.transfer.has_come for line in lines
        )
        return SlotUse(slot.circuits, slot.begin, slot.dark, received, is_full)
