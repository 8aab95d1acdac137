"""Baselines to compare policies with: clients fixed to one job, or choosing one at random."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Protocol

from testbed.tenancy.attributes import Attributes, Constraints, is_eligible


class SelectionPolicy(Protocol):
    """A policy of role `baseline`: how a client chooses a job without a scheduler."""

    for_good: bool
    """Whether a client chooses once, among all jobs there will be, and not at each attempt."""

    def select(
        self, jobs: Mapping[str, tuple[Constraints, int]], attributes: Attributes, draw: float
    ) -> str | None:
        """Return the job that a client chooses; None for none.

        `jobs` gives the constraints and the demand of each; `draw` is uniform in [0, 1).
        """


class StaticPartition:
    """Assigns each client permanently to one eligible job, drawn with demands as weights."""

    for_good = True

    def __init__(self, options: object = None) -> None:
        pass

    def select(
        self, jobs: Mapping[str, tuple[Constraints, int]], attributes: Attributes, draw: float
    ) -> str | None:
        fit = {job: quota for job, (c, quota) in jobs.items() if is_eligible(attributes, c)}
        return _drawn(list(fit), list(fit.values()), draw)


class RandomSelection:
    """Chooses any job at random at each attempt, which fails if the client is not eligible."""

    for_good = False

    def __init__(self, options: object = None) -> None:
        pass

    def select(
        self, jobs: Mapping[str, tuple[Constraints, int]], attributes: Attributes, draw: float
    ) -> str | None:
        return _drawn(list(jobs), [1] * len(jobs), draw)


def _drawn(jobs: Sequence[str], weights: Sequence[int], draw: float) -> str | None:
    sums = list(accumulate(weights))
    if not sums or sums[-1] <= 0:
        return None
    return jobs[bisect_right(sums, draw * sums[-1])]
