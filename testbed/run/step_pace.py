"""The step rate of a running job, as the orchestrator estimates it.

The estimate is good enough to time a fault and to end a wait; all recorded numbers are computed
later, from the hosts' own time stamps.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

WINDOW = 5
"""Consecutive steps whose mean must be fast again before throughput counts as back."""

BACK = 0.97
"""Share of the rate before the fault at which waiting ends. A little more than what counts in the
record (`analysis.marks`): the hosts' own stamps, which decide there, differ from ours."""

_KEPT = 1000
"""Steps of a generation whose ends are kept: a job may run for days."""


class StepPace:
    """The instants when the last rank finished each step, on this machine's clock."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._in_generation: dict[int, int] = {}
        self._finished: dict[tuple[int, int], set[int]] = {}
        self._ends: dict[int, deque[float]] = {}
        self._counts: dict[int, int] = {}
        self._took: dict[int, tuple[int, float]] = {}

    def expect(self, generation: int, ranks: int) -> None:
        """Wait for the reports of so many ranks in a new generation."""
        self._in_generation[generation] = ranks

    def add_step(self, rank: int, said: Mapping[str, Any], received: float) -> None:
        """Add one rank's report of one step."""
        generation = said["generation"]
        self._took[rank] = (generation, said["end"] - said["begin"])
        key = (generation, said["step"])
        ranks = self._finished.setdefault(key, set())
        ranks.add(rank)
        if len(ranks) == self._in_generation.get(generation, self._ranks):
            del self._finished[key]
            self._forget_before(generation)
            self._ends.setdefault(generation, deque(maxlen=_KEPT)).append(received)
            self._counts[generation] = self.steps(generation) + 1

    def _forget_before(self, generation: int) -> None:
        """Forget what is not needed any more: steps never finished, ends of old generations."""
        for abandoned in [key for key in self._finished if key[0] < generation]:
            del self._finished[abandoned]
        for old in [known for known in self._ends if known < generation - 1]:
            del self._ends[old]

    def step_time(self, generation: int) -> float:
        """Return the median time of a generation's last steps.

        Before two are finished, it is the slowest rank's time for the last step; 0 before any
        report.
        """
        intervals = [b - a for a, b in pairwise(self._ends.get(generation, ()))]
        if intervals:
            return statistics.median(intervals)
        return max((took for of, took in self._took.values() if of == generation), default=0.0)

    def steps(self, generation: int) -> int:
        """Return how many steps of a generation (a group of ranks) all its ranks have finished."""
        return self._counts.get(generation, 0)

    def is_back(self, generation: int, before: float) -> bool:
        """Return whether the last steps of a generation were as fast as `before` the fault.

        Where too few steps came before it (`before` is 0), some finished steps suffice.
        """
        ends = self._ends.get(generation)
        if ends is None or len(ends) <= WINDOW:
            return False
        return before == 0 or (ends[-1] - ends[-WINDOW - 1]) / WINDOW <= before / BACK
