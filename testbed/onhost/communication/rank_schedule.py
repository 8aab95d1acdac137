"""One rank's part of a schedule, and the times that it recorded while running it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional


@dataclass(frozen=True)
class Part:
    """The chunks that one rank sends or receives in one round, and whether they are added.

    Where `held` is the number of a message, the rank only forwards it; it is no chunk of the rank's
    vector. `turns` is true if sender or receiver exchanged data with another rank before.
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
        """Return a rank's part of a schedule, given in the format of `collectives`.

        It may begin with a later round than 0, which is then `first`.
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
    """The times that one rank recorded during one collective, by its own clock."""

    sent: int = 0
    """Bytes, openings included."""
    rounds: dict[int, list[float]] = field(default_factory=dict)
    """By number, when this rank's part of a round began and ended."""
    waits: dict[int, float] = field(default_factory=dict)
    """By rank, the longest from when this one was ready to receive from it until its first byte."""

    def merge(self, other: ScheduleRecord) -> None:
        """Add the times of later rounds of the same collective."""
        self.sent += other.sent
        self.rounds.update(other.rounds)
        for rank, seconds in other.waits.items():
            self.waits[rank] = max(self.waits.get(rank, 0.0), seconds)

    def note_round(self, number: int, begin: float, end: float) -> None:
        """Extend the times of a round by one send or receive."""
        times = self.rounds.setdefault(number, [begin, end])
        times[0], times[1] = min(times[0], begin), max(times[1], end)
