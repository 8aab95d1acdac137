"""One rank's part of a schedule, and what it saw of a run of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Part:
    """What one rank sends or receives in one round: chunks, and whether they are added."""

    round: int
    peer: int
    chunk: int
    count: int
    adds: bool


@dataclass(frozen=True)
class Program:
    """One rank's part of a schedule."""

    chunks: int
    sends: tuple[Part, ...]
    receives: tuple[Part, ...]

    @classmethod
    def of(cls, schedule: Mapping[str, Any], rank: int) -> Program:
        """Return a rank's part of a schedule, given as `collectives` writes it."""
        sends, receives = [], []
        for number, step in enumerate(schedule["rounds"]):
            for source, destination, chunk, count, operation in step:
                adds = operation == "reduce"
                if source == rank:
                    sends.append(Part(number, destination, chunk, count, adds))
                if destination == rank:
                    receives.append(Part(number, source, chunk, count, adds))
        return cls(schedule["chunks"], tuple(sends), tuple(receives))


@dataclass
class Record:
    """What one rank saw of one run of a schedule, on its own clock."""

    sent: int = 0
    """Bytes, openings included."""
    rounds: dict[int, list[float]] = field(default_factory=dict)
    """By number, when this rank's part of a round began and ended."""
    waits: dict[int, float] = field(default_factory=dict)
    """By rank, the longest from when this one was ready to hear it until its first byte."""

    def part_of(self, number: int, begin: float, end: float) -> None:
        """Take one send or receive of a round into its times."""
        times = self.rounds.setdefault(number, [begin, end])
        times[0], times[1] = min(times[0], begin), max(times[1], end)
