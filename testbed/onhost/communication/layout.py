"""A program laid out on vectors of one size: what goes where, and who must wait for whom."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

from .parts import Part, Program
from .ring import chunk_bounds

OPENING = struct.Struct("!4sIIIIIIQ")
"""Of a message: magic, generation, epoch, number, round, chunk, count of chunks, bytes."""

MAGIC = b"schd"
READY = b"redy"

EAGER = 64 << 10
"""Bytes of a message above which its receiver first says that it is ready, as MPI libraries do:
before that its port still belongs to the rounds before, and whoever sends there slows them down."""


class Way:
    """One send or receive under way: its bytes, its opening, and whom it must not overtake."""

    def __init__(self, part: Part, start: int, stop: int, magic: bytes = MAGIC) -> None:
        self.part, self.start, self.stop, self.magic = part, start, stop, magic
        self.place = (part.round, magic == MAGIC)
        """Its place among what a rank sends, or receives: who is ready says so before a round."""
        self.done = start
        """The element up to which it is done."""
        self.opening = b""
        self.heading = bytearray(OPENING.size)
        """The opening that comes, where this is a receive."""
        self.opened = 0
        self.after: tuple[Way, ...] = ()
        self.follows: tuple[int, bool] | None = None
        """The place that what we receive must have come to before this is sent."""
        self.begun: float | None = None
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

    def overlaps(self, other: Way) -> bool:
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
        self.sends = [_way(part, bounds) for part in program.sends]
        self.receives = [_way(part, bounds) for part in program.receives]
        for way in self.sends:
            earlier = (r for r in self.receives if r.part.round < way.part.round)
            way.after = tuple(r for r in earlier if r.overlaps(way))
        for way, before in zip(self.sends[1:], self.sends):  # noqa: B905 - Python 3.9
            if way.part.peer != before.part.peer:
                way.follows = (way.part.round, False)
        self.peers = {way.part.peer for way in self.sends}
        """Whom it sends to."""
        self.stays = len(self.peers) == 1 and len(self.sends) > 1
        """It sends to one peer round after round, as in a ring."""
        for way in self.receives:
            owed = (s for s in self.sends if s.part.round <= way.part.round)
            way.after = tuple(s for s in owed if s.overlaps(way))
        self._hold()
        if shared:
            self._announce()

    def _announce(self) -> None:
        """Put in its place what is said and heard before large messages."""
        said = [self._ready(way) for way in self.receives if self._waits(way)]
        heard = [self._ready(way) for way in self.sends if self._waits(way)]
        for way in self.sends:
            if self._waits(way):
                way.follows = way.place
        for way in said:
            way.follows = way.place
        self.sends = sorted([*said, *self.sends], key=lambda way: way.place)
        self.receives = sorted([*heard, *self.receives], key=lambda way: way.place)

    def _waits(self, way: Way) -> bool:
        return way.part.turns and (way.stop - way.start) * self._itemsize > EAGER

    @staticmethod
    def _ready(way: Way) -> Way:
        return Way(replace(way.part, adds=False, held=None), way.start, way.start, READY)

    def _hold(self) -> None:
        """Give what passes through this rank a place apart, whole before it goes on."""
        coming = {way.part.held: way for way in self.receives if way.part.held is not None}
        for way in coming.values():
            way.memory = memoryview(bytearray((way.stop - way.start) * self._itemsize))
        for way in self.sends:
            if way.part.held is not None:
                source = coming[way.part.held]
                way.after, way.memory = (source,), source.memory

    def reset(self, number: tuple[int, int, int]) -> None:
        """Make it ready for a run: by its generation, its epoch and its number in that."""
        for way in (*self.sends, *self.receives):
            part = way.part
            where = (part.round, part.chunk, part.count, (way.stop - way.start) * self._itemsize)
            way.opening = OPENING.pack(way.magic, *number, *where)
            way.opened, way.done, way.begun = 0, way.start, None


def _way(part: Part, bounds: Sequence[tuple[int, int]]) -> Way:
    return Way(part, bounds[part.chunk][0], bounds[part.chunk + part.count - 1][1])
