"""One rank's part of a schedule, and what it saw of a run of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional


@dataclass(frozen=True)
class Part:
    """What one rank sends or receives in one round: chunks, and whether they are added.

    Where `held` is the number of a message, it only passes through this rank and is no chunk of its
    vector. `turns` says that one of the two exchanged data with another rank before.
    """

    round: int
    peer: int
    chunk: int
    count: int
    adds: bool
    held: Optional[int] = None
    turns: bool = False


@dataclass(frozen=True)
class RankSchedule:
    """One rank's part of a schedule."""

    chunks: int
    sends: tuple[Part, ...]
    receives: tuple[Part, ...]

    @classmethod
    def of(cls, schedule: Mapping[str, Any], rank: int) -> RankSchedule:
        """Return a rank's part of a schedule, given as `collectives` writes it.

        It may begin with another round than 0, which is its `first`.
        """
        sends, receives = [], []
        sent_to: dict[int, int] = {}
        received_from: dict[int, int] = {}
        for number, step in enumerate(schedule["rounds"], schedule.get("first", 0)):
            for source, destination, chunk, count, operation, *hop in step:
                passed_on, held = hop or (None, None)
                adds = operation == "reduce" and held is None
                turns = sent_to.get(source, destination) != destination
                turns = turns or received_from.get(destination, source) != source
                sent_to[source], received_from[destination] = destination, source
                if source == rank:
                    sends.append(Part(number, destination, chunk, count, adds, passed_on, turns))
                if destination == rank:
                    receives.append(Part(number, source, chunk, count, adds, held, turns))
        return cls(schedule["chunks"], tuple(sends), tuple(receives))


@dataclass
class ScheduleRecord:
    """What one rank saw of one collective, on its own clock."""

    sent: int = 0
    """Bytes, openings included."""
    rounds: dict[int, list[float]] = field(default_factory=dict)
    """By number, when this rank's part of a round began and ended."""
    waits: dict[int, float] = field(default_factory=dict)
    """By rank, the longest from when this one was ready to receive from it until its first byte."""

    def merge(self, other: ScheduleRecord) -> None:
        """Take in what was seen of later rounds of the same collective."""
        self.sent += other.sent
        self.rounds.update(other.rounds)
        for rank, seconds in other.waits.items():
            self.waits[rank] = max(self.waits.get(rank, 0.0), seconds)

    def note_round(self, number: int, begin: float, end: float) -> None:
        """Take one send or receive of a round into its times."""
        times = self.rounds.setdefault(number, [begin, end])
        times[0], times[1] = min(times[0], begin), max(times[1], end)
