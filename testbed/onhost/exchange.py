"""What the ranks of a training job sum in each step, sealed against wrong sums, and by what."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .errors import Corrupt, Refused
from .parts import Program
from .ring import Ring
from .schedule import Group
from .state import Numbers

_PRIME = 65521


class Exchange:
    """The values that the ranks sum, one row per chunk of the collective, closed by a sentinel.

    A sentinel is a small whole number made of rank, step and chunk, so its sum is known and exact:
    a rank's contribution that is missing, counted twice or left over from another step shows.
    """

    def __init__(self, size: int, ranks: int, chunks: int) -> None:
        self.ranks, self.chunks = ranks, chunks
        self._size = size
        self._width = width = -(-size // chunks)
        self._rows = np.zeros((chunks, width + 1), np.float32)
        self.vector: Numbers = self._rows.reshape(-1)
        """What the collective sums; each of its chunks is one row."""
        self.places: list[tuple[int, Numbers]] = [
            (start, self._rows[chunk, : min(width, size - start)])
            for chunk, start in enumerate(range(0, size, width))
        ]
        """The values without sentinels and padding: the index of the first, and the values."""

    @property
    def last(self) -> float:
        """Return the last of the values."""
        return self.value(self._size - 1)

    def value(self, index: int) -> float:
        """Return one of the values."""
        return float(self._rows[divmod(index, self._width)])

    def fill(self, values: Numbers, step: int, rank: int) -> None:
        """Put one rank's values and sentinels in place of whatever was there."""
        for start, place in self.places:
            place[:] = values[start : start + len(place)]
        self._rows[:, -1] = sentinels(rank, step, self.chunks)

    def verify(self, step: int) -> None:
        """Raise Corrupt unless every sentinel is the sum over the ranks and the loss a number."""
        own = [sentinels(rank, step, self.chunks) for rank in range(self.ranks)]
        expected = np.sum(own, axis=0)
        wrong = np.flatnonzero(self._rows[:, -1] != expected)
        if wrong.size:
            chunk = int(wrong[0])
            came = self._rows[chunk, -1]
            raise Corrupt(f"the sentinel of chunk {chunk} is {came}, not {expected[chunk]}")
        if not math.isfinite(self.last):
            raise Corrupt(f"the sum of the losses is {self.last}")


class Sum:
    """One way to sum the values of so many ranks: by a ring, or by a schedule.

    `choice` is the number of the agent's choice that it follows, 0 for none.
    """

    def __init__(
        self, size: int, ranks: int, schedule: Mapping[str, Any] | None, choice: int = 0
    ) -> None:
        if schedule is not None and schedule["ranks"] != ranks:
            raise Refused(f"a schedule of {schedule['ranks']} ranks cannot serve {ranks}")
        self.schedule, self.choice = schedule, choice
        self.name: str = "ring" if schedule is None else schedule["name"]
        self.exchange = Exchange(size, ranks, ranks if schedule is None else schedule["chunks"])
        self._program: Program | None = None

    def run(self, together: Ring | Group) -> tuple[int, Mapping[int, float]]:
        """Sum the exchange; return the bytes sent, and how long which ranks were waited for."""
        vector = self.exchange.vector
        if isinstance(together, Ring):
            sent = together.all_reduce(vector)
            return sent, {(together.rank - 1) % together.ranks: together.waited}
        if self._program is None:
            assert self.schedule is not None
            self._program = Program.of(self.schedule, together.rank)
        record = together.run(self._program, vector)
        return record.sent, record.waits


def sentinels(rank: int, step: int, count: int) -> Numbers:
    """Return one rank's sentinels, one per chunk; any two ranks have different ones, as have steps.

    With up to 256 ranks their sum stays within 2²⁴, where float32 still counts exactly.
    """
    chunks = np.arange(count)
    return (1 + (39208 * rank + 7919 * step + 31 * chunks) % _PRIME).astype(np.float32)
