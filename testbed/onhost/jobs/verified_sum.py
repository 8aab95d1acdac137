"""The vector that the ranks of a training job sum in each step, and its verification."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..communication.group import Group
from ..communication.rank_schedule import RankSchedule, ScheduleRecord
from ..communication.ring import Ring
from ..errors import Corrupt, Refused
from .checksums import BLOCK, block_count, blocks_verified_in, checksums_of, first_mismatch
from .state import Numbers

_PRIME = 65521


class VerifiedVector:
    """The values that the ranks sum: one row per chunk of the collective, ended by a sentinel.

    A sentinel is a small whole number made of rank, step and chunk, so its sum is known and exact:
    a rank's contribution that is missing, counted twice or left over from another step shows. The
    sentinel is preceded by the rank's checksums of its part of the chunk before this one, so that
    values and their checksums are not summed in the same message.
    """

    def __init__(self, size: int, ranks: int, chunks: int) -> None:
        self.ranks, self.chunks = ranks, chunks
        self._size = size
        self._width = width = -(-size // chunks)
        self._blocks = block_count(width)
        self._rows = np.zeros((chunks, width + 2 * self._blocks + 1), np.float32)
        self.vector: Numbers = self._rows.reshape(-1)
        """What the collective sums; each of its chunks is one row."""
        self.places: list[tuple[int, Numbers]] = [
            (start, self._rows[chunk, : min(width, size - start)])
            for chunk, start in enumerate(range(0, size, width))
        ]
        """The values without sentinels and padding: the index of the first, and the values."""

    @property
    def last(self) -> float:
        """Return the last value of the vector."""
        return self.value(self._size - 1)

    def value(self, index: int) -> float:
        """Return one value of the vector."""
        return float(self._rows[divmod(index, self._width)])

    def fill(self, values: Numbers, step: int, rank: int, *, whole: bool = True) -> None:
        """Fill the vector with one rank's values and their checksums.

        The checksums are of all values if `whole`, else of the blocks that are verified in this
        step.
        """
        for chunk, (start, place) in enumerate(self.places):
            place[:] = values[start : start + len(place)]
            checksums, blocks = self._checksums(chunk), self._blocks_verified(chunk, step, whole)
            checksums.fill(0)
            checksums[blocks] = checksums_of(place, blocks)
        self._rows[:, -1] = sentinels(rank, step, self.chunks)

    def _checksums(self, chunk: int) -> Numbers:
        """Return the place of the checksums of a chunk: a row of two numbers for each block."""
        row = self._rows[(chunk + 1) % self.chunks]
        blocks = block_count(len(self.places[chunk][1]))
        checksums: Numbers = row[self._width : self._width + 2 * blocks].reshape(blocks, 2)
        return checksums

    def _blocks_verified(self, chunk: int, step: int, whole: bool) -> Sequence[int]:
        count = len(self._checksums(chunk))
        return range(count) if whole else blocks_verified_in(step, chunk, count)

    def verify(self, step: int, *, whole: bool = True) -> int:
        """Raise Corrupt unless the sums agree with the sums of the checksums.

        It verifies every sentinel, that the loss is a number, and the values for which `fill`
        computed checksums, whose number it returns.
        """
        count = 0
        self._verify_sentinels(step)
        if not math.isfinite(self.last):
            raise Corrupt(f"the sum of the losses is {self.last}")
        for chunk, (start, place) in enumerate(self.places):
            blocks = self._blocks_verified(chunk, step, whole)
            wrong = first_mismatch(place, self._checksums(chunk)[blocks], self.ranks, blocks)
            if wrong is not None:
                number, found, expected = wrong
                first = start + number * BLOCK
                last = min(first + BLOCK, start + len(place)) - 1
                raise Corrupt(
                    f"in step {step} elements {first} to {last} of the sum have the checksum "
                    f"{found:.9g}, but the ranks' contributions add up to {expected:.9g}"
                )
            count += sum(min(BLOCK, len(place) - block * BLOCK) for block in blocks)
        return count

    def _verify_sentinels(self, step: int) -> None:
        own = [sentinels(rank, step, self.chunks) for rank in range(self.ranks)]
        expected = np.sum(own, axis=0)
        wrong = np.flatnonzero(self._rows[:, -1] != expected)
        if wrong.size:
            chunk = int(wrong[0])
            came = self._rows[chunk, -1]
            raise Corrupt(f"the sentinel of chunk {chunk} is {came}, not {expected[chunk]}")


class GradientSum:
    """A way to sum the values of all ranks: by rings, or by a schedule.

    `choice` is the number of the agent's choice of a schedule, 0 for none. Each of `rings` sums as
    many rows as there are ranks.
    """

    def __init__(
        self,
        size: int,
        ranks: int,
        schedule: Mapping[str, Any] | None,
        choice: int = 0,
        rings: int = 1,
    ) -> None:
        if schedule is not None and schedule["ranks"] != ranks:
            raise Refused(
                f"a schedule of {schedule['ranks']} ranks cannot be used by {ranks} ranks"
            )
        self.schedule, self.choice = schedule, choice
        self.name: str = "ring" if schedule is None else schedule["name"]
        chunks = ranks * rings if schedule is None else schedule["chunks"]
        self.vector = VerifiedVector(size, ranks, chunks)
        self._rank_schedule: RankSchedule | None = None

    def run(self, communicator: Ring | Group) -> ScheduleRecord:
        """Sum the vector over the ranks."""
        vector = self.vector.vector
        if isinstance(communicator, Ring):
            return communicator.all_reduce(vector)
        if self._rank_schedule is None:
            assert self.schedule is not None
            self._rank_schedule = RankSchedule.of(self.schedule, communicator.rank)
        return communicator.run(self._rank_schedule, vector)


def sentinels(rank: int, step: int, count: int) -> Numbers:
    """Return one rank's sentinels, one per chunk; they differ between ranks and steps.

    With up to 256 ranks their sum stays within 2²⁴, where float32 still counts exactly.
    """
    chunks = np.arange(count)
    return (1 + (39208 * rank + 7919 * step + 31 * chunks) % _PRIME).astype(np.float32)
