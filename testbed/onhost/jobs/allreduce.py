"""The job `allreduce`: repeated AllReduce of given sizes, with every value verified."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from ..communication.control import Control
from ..communication.rank_schedule import ScheduleRecord
from ..communication.ring import Ring
from ..errors import Corrupt, Refused
from .pace import Pace
from .state import Numbers, State

AllReduce = Callable[[Numbers], ScheduleRecord]

PERIOD = 1021
BLOCK = 64 * PERIOD


@dataclass(frozen=True)
class Options:
    """The options: `sizes` in bytes, each run `iterations` times after a warm-up.

    `pace` is the seconds that each rank computes between two of these. With two `rings` each sums
    half of a long vector. A `library` sums in their place, over as many circuits.
    """

    sizes: Sequence[int]
    iterations: int = 20
    warmup: int = 5
    pace: Optional[float] = None
    rings: int = 1
    library: Optional[str] = None

    def __post_init__(self) -> None:
        for size in self.sizes:
            if size < 4 or size % 4:
                raise ValueError(f"{size} bytes are not a whole number of float32 values")


class Job:
    """Runs through all sizes and ends; size and iteration follow from the step number."""

    connects_to = "neighbours"

    def __init__(self, options: Mapping[str, Any], seed: int, ranks: int) -> None:
        self._options = Options(**options)
        if self._options.library is not None:
            load(self._options.library)
        self.state = State(0)
        self.loss: float | None = None

    def warm_up(self, raise_if_left: Callable[[], None]) -> None:
        """Do nothing, as each size warms up its own buffer over the links."""

    def run(self, ring: Ring, control: Control) -> None:
        """Run from the next step on; a new ring and a new size warm up first."""
        if self._options.library is None:
            self._run(ring, control, ring.all_reduce)
            return
        from ..communication.distributed import PairOfRanks  # brings torch, seconds of it

        options = self._options
        library = PairOfRanks(ring, control, options.rings)

        def all_reduce(vector: Numbers) -> ScheduleRecord:
            library.take(vector)
            record = library.all_reduce()
            library.give(vector)
            return record

        try:
            self._run(ring, control, all_reduce)
        finally:
            library.close()

    def _run(self, ring: Ring, control: Control, all_reduce: AllReduce) -> None:
        options = self._options
        pattern = Pattern(0)
        pace = Pace(options.pace, control, ring.generation)
        while True:
            step = self.state.step
            assert step is not None
            index, iteration = divmod(step, options.iterations)
            if index == len(options.sizes) or control.ends_before(step):
                return
            size = options.sizes[index]
            if pattern.vector.nbytes != size:
                pattern = Pattern(size // 4)
                for warmup in range(options.warmup):
                    _timed(ring, all_reduce, pattern, step + warmup)
                pace.restart()
            facts = _timed(ring, all_reduce, pattern, step, control, pace)
            self.state.commit()
            control.emit(
                "sample",
                facts["end"],
                generation=ring.generation,
                step=step,
                size=size,
                iteration=iteration,
                **facts,
                verified=True,
            )


def load(library: str) -> None:
    """Import torch before a rank waits for this one; raise Refused where it is missing."""
    try:
        from ..communication import distributed  # noqa: F401
    except ImportError as error:
        raise Refused(
            f"{library} comes with torch, which cannot be loaded here: {error}"
        ) from error


def _timed(
    ring: Ring,
    all_reduce: AllReduce,
    pattern: Pattern,
    step: int,
    control: Control | None = None,
    pace: Pace | None = None,
) -> dict[str, Any]:
    """Return when one AllReduce began and ended on this rank, and what it saw of it."""
    pattern.fill(ring.rank, step, ring.raise_if_left)
    paced = {} if pace is None else pace.wait()
    ring.barrier()
    if control is not None:
        control.delay_collective(ring.generation)
    begin = time.monotonic()
    record = all_reduce(pattern.vector)
    end = time.monotonic()
    if pace is not None:
        pace.restart()
    pattern.verify(range(ring.ranks), step, ring.raise_if_left)
    sent = record.sent or None  # a library does not say
    return {"begin": begin, "end": end, "bytes": sent, "waits": record.waits, **paced}


class Pattern:
    """A vector of integers whose sum over the ranks is known for every element."""

    def __init__(self, count: int) -> None:
        self.vector: Numbers = np.zeros(count, np.float32)
        self._base = (np.arange(BLOCK + PERIOD) % PERIOD).astype(np.float32)

    def fill(self, rank: int, step: int, raise_if_left: Callable[[], None]) -> None:
        """Fill the vector with this rank's numbers of this step."""
        for start in range(0, len(self.vector), BLOCK):
            raise_if_left()
            block = self.vector[start : start + BLOCK]
            np.add(self._base[: len(block)], rank + step % PERIOD, out=block)

    def verify(
        self,
        ranks: Sequence[int],
        step: int,
        raise_if_left: Callable[[], None],
        begin: int = 0,
        end: Optional[int] = None,
    ) -> None:
        """Raise Corrupt unless every element from `begin` to `end` is the sum over these ranks."""
        expected = self._base * len(ranks) + (sum(ranks) + len(ranks) * (step % PERIOD))
        end = len(self.vector) if end is None else end
        for start in range(begin, end, BLOCK):
            raise_if_left()
            block, ahead = self.vector[start : min(start + BLOCK, end)], start % PERIOD
            wanted = expected[ahead : ahead + len(block)]
            wrong = np.flatnonzero(block != wanted)
            if wrong.size:
                first = int(wrong[0])
                raise Corrupt(f"element {start + first} is {block[first]}, not {wanted[first]}")
