"""A program laid out on vectors of one size: what goes where, and who must wait for whom."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

from .communicator import chunk_bounds
from .parts import Part, Program

OPENING = struct.Struct("!4sIIIIIIQ")
"""Of a message: magic, generation, epoch, number, round, chunk, count of chunks, bytes."""

MAGIC = b"schd"
READY = b"redy"

EAGER = 64 << 10
"""Bytes of a message above which its receiver first says that it is ready, as MPI libraries do:
before that its port still belongs to the rounds before, and whoever sends there slows them down."""


class Transfer:
    """One send or receive of a schedule: its elements, its opening, and what comes before it."""

    def __init__(self, part: Part, start: int, stop: int, magic: bytes = MAGIC) -> None:
        self.part, self.start, self.stop, self.magic = part, start, stop, magic
        self.place = (part.round, magic == MAGIC)
        """Its place among what a rank sends, or receives: who is ready says so before a round."""
        self.done = start
        """The element up to which it is done."""
        self.opening = b""
        self.heading = bytearray(OPENING.size)
        """The opening that comes, where this is a receive."""
        self.after: tuple[Transfer, ...] = ()
        self.follows: tuple[int, bool] | None = None
        """The place that what we receive must have come to before this is sent."""
        self.memory: memoryview | None = None
        """Where its bytes are, when not in the vector."""

    @property
    def is_data(self) -> bool:
        """Tell whether it is about elements at all, and does not only say that a rank is ready."""
        return self.magic == MAGIC

    def limit(self) -> int:
        """Return the element up to which it may go now."""
        if self.part.held is not None:  # what we pass on we have whole
            return self.stop if all(o.done == o.stop for o in self.after) else self.start
        least = self.stop
        for other in self.after:  # what one of them has not done stops us only where it begins
            if other.done < least and other.done < other.stop:
                least = other.done
        return max(self.start, least)

    def overlaps(self, other: Transfer) -> bool:
        """Tell whether both are about the same elements of the vector, some of them."""
        mine = self.part.held is None and other.part.held is None
        return mine and self.start < other.stop and other.start < self.stop


class Layout:
    """A program on vectors of one size, made once and reset for each run.

    Where ports are `shared`, receivers of large messages from another rank than before say when
    they are ready.
    """

    def __init__(self, program: Program, size: int, itemsize: int, *, shared: bool = True) -> None:
        self.program = program  # kept, so that no other can have its identity
        self._itemsize = itemsize
        bounds = chunk_bounds(size, program.chunks)
        self.sends = [_transfer(part, bounds) for part in program.sends]
        self.receives = [_transfer(part, bounds) for part in program.receives]
        for transfer in self.sends:
            earlier = (r for r in self.receives if r.part.round < transfer.part.round)
            transfer.after = tuple(r for r in earlier if r.overlaps(transfer))
        for transfer, before in zip(self.sends[1:], self.sends):  # noqa: B905 - Python 3.9
            if transfer.part.peer != before.part.peer:
                transfer.follows = (transfer.part.round, False)
        self.peers = {transfer.part.peer for transfer in self.sends}
        """Whom it sends to."""
        self.stays = len(self.peers) == 1 and len(self.sends) > 1
        """It sends to one peer round after round, as in a ring."""
        for transfer in self.receives:
            owed = (s for s in self.sends if s.part.round <= transfer.part.round)
            transfer.after = tuple(s for s in owed if s.overlaps(transfer))
        self._hold()
        if shared:
            self._announce()

    def _announce(self) -> None:
        """Put in its place what is said and heard before large messages."""
        said = [self._ready(transfer) for transfer in self.receives if self._waits(transfer)]
        heard = [self._ready(transfer) for transfer in self.sends if self._waits(transfer)]
        for transfer in self.sends:
            if self._waits(transfer):
                transfer.follows = transfer.place
        for transfer in said:
            transfer.follows = transfer.place
        self.sends = sorted([*said, *self.sends], key=lambda transfer: transfer.place)
        self.receives = sorted([*heard, *self.receives], key=lambda transfer: transfer.place)

    def _length(self, transfer: Transfer) -> int:
        """Return the bytes of its elements."""
        return (transfer.stop - transfer.start) * self._itemsize

    def _waits(self, transfer: Transfer) -> bool:
        return transfer.part.turns and self._length(transfer) > EAGER

    @staticmethod
    def _ready(transfer: Transfer) -> Transfer:
        part = replace(transfer.part, adds=False, held=None)
        return Transfer(part, transfer.start, transfer.start, READY)

    def _hold(self) -> None:
        """Give what passes through this rank a place apart, whole before it goes on."""
        coming = {t.part.held: t for t in self.receives if t.part.held is not None}
        for transfer in coming.values():
            transfer.memory = memoryview(bytearray(self._length(transfer)))
        for transfer in self.sends:
            if transfer.part.held is not None:
                source = coming[transfer.part.held]
                transfer.after, transfer.memory = (source,), source.memory

    def reset(self, number: tuple[int, int, int]) -> None:
        """Make it ready for a run: by its generation, its epoch and its number in that."""
        for transfer in (*self.sends, *self.receives):
            part = transfer.part
            where = (part.round, part.chunk, part.count, self._length(transfer))
            transfer.opening = OPENING.pack(transfer.magic, *number, *where)
            transfer.done = transfer.start


def _transfer(part: Part, bounds: Sequence[tuple[int, int]]) -> Transfer:
    return Transfer(part, bounds[part.chunk][0], bounds[part.chunk + part.count - 1][1])
