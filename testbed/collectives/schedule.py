"""A collective as plain data: rounds of sends between ranks.

In a round, a rank sends to at most one peer and receives from at most one, so the pairs of a round
are also the circuits that a switch has to make. All sends of a round read the data of their source
at the beginning of the round: a rank that sends a chunk and receives the same one must keep its own
until it is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

Operation = Literal["reduce", "copy"]
"""What a receiver does with what arrives: add it to its own, or put it in its place."""
Collective = Literal["all-reduce", "reduce-scatter", "all-gather", "all-to-all", "chain"]
Pair = tuple[int, int]
"""Two ranks that talk to each other in a round, the lower one first."""
Numbers = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Send:
    """The transfer of `count` chunks, from chunk `chunk` on, from one rank to another."""

    source: int
    destination: int
    chunk: int
    operation: Operation
    count: int = 1


@dataclass(frozen=True, eq=False)
class Round:
    """The sends of a round, as columns; iterate to get them one by one.

    Columns may be shared between rounds and must not be written to.
    """

    source: Numbers
    destination: Numbers
    chunk: Numbers
    count: Numbers
    reduces: Flags

    @classmethod
    def of(cls, sends: Iterable[Send]) -> Round:
        """Return the round with these sends."""
        rows = [
            (send.source, send.destination, send.chunk, send.count, send.operation == "reduce")
            for send in sends
        ]
        source, destination, chunk, count, reduces = np.array(rows, np.int32).reshape(-1, 5).T
        return cls(source, destination, chunk, count, reduces.astype(np.bool_))

    @classmethod
    def alike(
        cls, source: Numbers, destination: Numbers, chunk: Numbers, operation: Operation, count: int
    ) -> Round:
        """Return a round in which all sends carry `count` chunks for the same operation."""
        counts = np.broadcast_to(np.int32(count), source.shape)
        reduces = np.broadcast_to(np.bool_(operation == "reduce"), source.shape)
        return cls(source, destination, chunk, counts, reduces)

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[Send]:
        columns = (self.source, self.destination, self.chunk, self.count, self.reduces)
        for source, destination, chunk, count, reduces in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            yield Send(source, destination, chunk, "reduce" if reduces else "copy", count)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Round) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Return the pairs of ranks that exchange data in the round, in order.

        They are a matching of the ranks unless one sends to a rank and receives from another, which
        takes two ports of its host.
        """
        ends = np.sort(np.stack([self.source, self.destination], axis=1), axis=1)
        return tuple((a, b) for a, b in np.unique(ends, axis=0).tolist())


@dataclass(frozen=True, slots=True)
class Schedule:
    """A collective as rounds of sends, over `ranks` buffers that are each cut into `chunks`.

    `straggler` is the rank that the schedule expects to arrive last: rounds without it come first,
    and from its first round on every rank has one peer in a round. A chain goes from rank 0 to the
    last one. Raise ValueError for invalid numbers.
    """

    name: str
    collective: Collective
    ranks: int
    chunks: int
    rounds: tuple[Round, ...]
    straggler: int | None = None

    def __post_init__(self) -> None:
        """Refuse an unknown collective, no ranks, no chunks, and a rank out of range."""
        if self.collective not in get_args(Collective):
            raise ValueError(f"{self.collective!r} is not a known collective")
        for what, count in (("rank", self.ranks), ("chunk", self.chunks)):
            if not _is_whole(count) or count < 1:
                raise ValueError(f"{self.name} must have at least 1 {what}, not {count!r}")
        rank = self.straggler
        if rank is not None and not (_is_whole(rank) and 0 <= rank < self.ranks):
            raise ValueError(f"the straggler {rank!r} is not one of the {self.ranks} ranks")

    @property
    def early(self) -> int:
        """Return how many rounds come before the first round of the straggler."""
        for number, step in enumerate(self.rounds):
            if ((step.source == self.straggler) | (step.destination == self.straggler)).any():
                return number
        return 0 if self.straggler is None else len(self.rounds)


def to_json(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as plain data: a send is [source, destination, chunk, count, operation]."""
    return {
        "name": schedule.name,
        "collective": schedule.collective,
        "ranks": schedule.ranks,
        "chunks": schedule.chunks,
        "straggler": schedule.straggler,
        "rounds": [
            [[s.source, s.destination, s.chunk, s.count, s.operation] for s in step]
            for step in schedule.rounds
        ],
    }


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
