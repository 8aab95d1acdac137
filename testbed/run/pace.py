"""How fast the job goes, as far as the orchestrator can tell while it runs.

Good enough to choose the moment of a fault and to know when to stop waiting; every number in the
record is computed later, from the hosts' own stamps.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

WINDOW = 5
"""Consecutive steps whose mean must be fast again before throughput counts as back."""

BACK = 0.95
"""Share of the rate before the fault that counts as back."""


class Pace:
    """When each step was finished by the last rank, on this machine's clock."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._finished: dict[tuple[int, int], set[int]] = {}
        self.ends: list[tuple[int, float]] = []
        """(generation, instant) of every finished step, in order."""

    def hear(self, rank: int, said: Mapping[str, Any], received: float) -> None:
        """Take one rank's word on one step."""
        key = (said["generation"], said["step"])
        ranks = self._finished.setdefault(key, set())
        ranks.add(rank)
        if len(ranks) == self._ranks:
            del self._finished[key]
            self.ends.append((said["generation"], received))

    def step_time(self, generation: int) -> float:
        """Return the median time of a step of one generation; 0 before two are finished."""
        ends = [t for g, t in self.ends if g == generation]
        intervals = [b - a for a, b in pairwise(ends)]
        return statistics.median(intervals) if intervals else 0.0

    def steps(self, generation: int) -> int:
        """Return how many steps of a generation are finished."""
        return sum(g == generation for g, _ in self.ends)

    def is_back(self, generation: int, before: float) -> bool:
        """Tell whether the last steps of a generation were as fast as `before` the fault.

        Where too few steps came before it (0), there is nothing to wait for but the steps.
        """
        ends = [t for g, t in self.ends if g == generation][-WINDOW - 1 :]
        if len(ends) <= WINDOW:
            return False
        return before == 0 or (ends[-1] - ends[0]) / WINDOW <= before / BACK
