"""Find the persistent straggler: the rank that is always last to arrive at collectives."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.analysis.clocks import Instant

_FEW = 1000
"""Tries up to which every number of choices among them is a float."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """The rank that came last most often."""

    rank: int
    gap: float
    """Median seconds by which it came later than the one before it."""
    confidence: float
    """One less the chance that some rank is last so often where all are alike."""


def find_straggler(arrivals: Sequence[Mapping[int, Instant]]) -> Straggler | None:
    """Return the persistent straggler of some collectives; None where no rank was clearly last.

    `arrivals` maps each rank to its arrival, for each collective. A rank was clearly last where its
    arrival is after all others by more than the error of the clocks. If all n ranks were alike,
    each would be last with probability 1/n; the probability that any of them is last k times or
    more is at most n times the binomial tail.
    """
    gaps: dict[int, list[float]] = {}
    for ranks in arrivals:
        if len(ranks) < 2:
            continue
        *_, before, last = sorted(ranks, key=lambda rank: ranks[rank].middle)
        if ranks[last].early > max(at.late for rank, at in ranks.items() if rank != last):
            gaps.setdefault(last, []).append(ranks[last].middle - ranks[before].middle)
    counts = Counter({rank: len(found) for rank, found in gaps.items()})
    if not counts:
        return None
    (rank, count), *_ = counts.most_common(1)
    among, total = max(len(ranks) for ranks in arrivals), len(arrivals)
    chance = min(1.0, among * _at_least(count, total, 1 / among))
    return Straggler(rank, statistics.median(gaps[rank]), 1 - chance)


def _at_least(count: int, total: int, chance: float) -> float:
    """Return the chance of `count` hits or more in `total` tries."""
    return math.fsum(_exactly(hits, total, chance) for hits in range(count, total + 1))


def _exactly(hits: int, total: int, chance: float) -> float:
    if total <= _FEW:
        return math.comb(total, hits) * chance**hits * (1 - chance) ** (total - hits)
    choices = math.lgamma(total + 1) - math.lgamma(hits + 1) - math.lgamma(total - hits + 1)
    return math.exp(choices + hits * math.log(chance) + (total - hits) * math.log1p(-chance))
