"""A rank's part of a schedule for vectors of one size: byte ranges and dependencies."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Optional

from .communicator import chunk_bounds
from .rank_schedule import Part, RankSchedule

OPENING = struct.Struct("!4sIIIIIIQ")
"""Of a message: kind, generation, epoch, number, round, chunk, count of chunks, bytes."""

DATA = b"schd"
READY = b"redy"

EAGER = 64 << 10
"""Bytes of a message above which its receiver first says that it is ready, as MPI libraries do:
before that its port still belongs to the rounds before, and a sender there slows them down."""


class Transfer:
    """One send or receive of a schedule: its elements, its opening, and its dependencies."""

    def __init__(self, part: Part, start: int, stop: int, kind: bytes = DATA) -> None:
        self.part, self.start, self.stop, self.kind = part, start, stop, kind
        self.place = (part.round, kind == DATA)
        """Its place among the sends or receives: READY comes before the data of a round."""
        self.done = start
        """The element up to which it is done."""
        self.opening = b""
        self.after: tuple[Transfer, ...] = ()
        """The transfers of the same elements that must be done first, element by element."""
        self.follows: Optional[tuple[int, bool]] = None
        """The place that the receives must have come to before this is sent."""
        self.memory: Optional[memoryview] = None
        """Where its bytes are, when not in the vector."""

    def limit(self) -> int:
        """Return the element up to which the transfer may proceed now."""
        if self.part.held is not None:  # what passes through must have arrived whole
            return self.stop if all(o.done == o.stop for o in self.after) else self.start
        least = self.stop
        for other in self.after:  # what one of them has not done stops us only where it begins
            if other.done < least and other.done < other.stop:
                least = other.done
        return max(self.start, least)

    def overlaps(self, other: Transfer) -> bool:
        """Return whether two transfers have elements of the vector in common."""
        mine = self.part.held is None and other.part.held is None
        return mine and self.start < other.stop and other.start < self.stop


class Layout:
    """A rank's schedule on vectors of one size, created once and reset for each run.

    Where ports are `shared`, a rank sends, and receives, one message after the other, and receivers
    of large messages report when they are ready, if the sender is another rank than before. Else
    each peer has a line of its own, which waits for other lines only where elements are the same.
    """

    def __init__(
        self, schedule: RankSchedule, size: int, itemsize: int, *, shared: bool = True
    ) -> None:
        self.schedule = schedule  # kept, so that no other can have its identity
        self._itemsize, self._shared = itemsize, shared
        bounds = chunk_bounds(size, schedule.chunks)
        self.sends, self.receives = (
            [Transfer(p, bounds[p.chunk][0], bounds[p.chunk + p.count - 1][1]) for p in parts]
            for parts in (schedule.sends, schedule.receives)
        )
        self.peers = {send.part.peer for send in self.sends}
        """The ranks that it sends to."""
        self.stays = len(self.peers) == 1 and len(self.sends) > 1
        """It sends to one peer round after round, as in a ring."""
        self._order()
        self._place_held_messages()
        if shared:
            self._add_ready_messages()
        self.outgoing, self.incoming = self._lines(self.sends), self._lines(self.receives)
        """The sends, and the receives, that come one after the other."""

    def _lines(self, transfers: list[Transfer]) -> list[list[Transfer]]:
        if self._shared:
            return [transfers]
        of_peer: dict[int, list[Transfer]] = {}
        for transfer in transfers:
            of_peer.setdefault(transfer.part.peer, []).append(transfer)
        return list(of_peer.values())

    def _order(self) -> None:
        """Let each transfer wait for those of earlier rounds that are about the same elements."""
        for send in self.sends:
            earlier = (r for r in self.receives if r.part.round < send.part.round)
            send.after = tuple(r for r in earlier if r.overlaps(send))
        for receive in self.receives:
            here, peer = receive.part.round, receive.part.peer
            first = [s for s in self.sends if s.part.round <= here]
            if not self._shared:  # else receives are done one after the other
                first += [r for r in self.receives if r.part.round < here and r.part.peer != peer]
            receive.after = tuple(each for each in first if each.overlaps(receive))
        if not self._shared:
            return
        for send, before in zip(self.sends[1:], self.sends):  # noqa: B905 - Python 3.9
            if send.part.peer != before.part.peer:
                send.follows = (send.part.round, False)

    def _place_held_messages(self) -> None:
        """Give each message that passes through this rank memory of its own."""
        held = {r.part.held: r for r in self.receives if r.part.held is not None}
        for receive in held.values():
            receive.memory = memoryview(bytearray(self._length(receive)))
        for send in self.sends:
            if send.part.held is not None:
                source = held[send.part.held]
                send.after, send.memory = (source,), source.memory

    def _add_ready_messages(self) -> None:
        """Put a READY message before each large one, in the other direction."""
        outgoing = [_ready(receive) for receive in self.receives if self._waits(receive)]
        incoming = [_ready(send) for send in self.sends if self._waits(send)]
        for send in (*outgoing, *filter(self._waits, self.sends)):
            send.follows = send.place
        self.sends = sorted([*outgoing, *self.sends], key=lambda send: send.place)
        self.receives = sorted([*incoming, *self.receives], key=lambda receive: receive.place)

    def _length(self, transfer: Transfer) -> int:
        return (transfer.stop - transfer.start) * self._itemsize

    def _waits(self, transfer: Transfer) -> bool:
        return transfer.part.turns and self._length(transfer) > EAGER

    def reset(self, number: tuple[int, int, int]) -> None:
        """Prepare for a run with these numbers: generation, epoch, and number within the epoch."""
        for transfer in (*self.sends, *self.receives):
            part = transfer.part
            where = (part.round, part.chunk, part.count, self._length(transfer))
            transfer.opening = OPENING.pack(transfer.kind, *number, *where)
            transfer.done = transfer.start


def _ready(transfer: Transfer) -> Transfer:
    part = replace(transfer.part, adds=False, held=None)
    return Transfer(part, transfer.start, transfer.start, READY)
