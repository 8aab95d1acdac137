"""Evaluate a check on the ratio of two medians: an end of its interval must satisfy a condition."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from testbed.analysis.comparison import ENOUGH, SEED
from testbed.analysis.statistics import ratio_of_medians_interval
from testbed.analysis.trial import TrialResult
from testbed.schema import Check


def ratio_interval(
    check: Check, trials: Sequence[TrialResult], *, more_is_better: bool
) -> tuple[tuple[float, float] | None, str]:
    """Return the 95 % interval of the ratio that a check is about, or None, and it in words.

    Trials that are valid but whose job failed count as the worst value, as in comparisons of runs.
    Of several metrics that it is divided by, the one with the best median is taken.
    """
    worst = 0.0 if more_is_better else math.inf
    over = _values(check.arm, check.metric, trials, worst)
    unders = {name: _values(*name.rpartition(".")[::2], trials, worst) for name in check.over}
    fewest = min(unders, key=lambda name: len(unders[name]))
    if len(unders[fewest]) >= ENOUGH:
        best = max if more_is_better else min
        fewest = best(unders, key=lambda name: statistics.median(unders[name]))
    name, under = fewest, unders[fewest]
    counts = f"n = {len(over)} + {len(under)}"
    if min(len(over), len(under)) < ENOUGH:
        return None, f"an interval takes {ENOUGH} trials of each arm, and {counts}"
    if min(*over, *under) <= 0:
        return None, "the ratio of values that are not all above 0 is not known"
    low, high = ratio_of_medians_interval(over, under, SEED)
    ratio = statistics.median(over) / statistics.median(under)
    return (low, high), f"ratio {ratio:.3f} [{low:.3f}, {high:.3f}] over {name}, {counts}"


def bound(check: Check, interval: tuple[float, float]) -> float:
    """Return the end of an interval that a check is about."""
    return interval[check.statistic == "ratio_upper"]


def _values(arm: str, metric: str, trials: Sequence[TrialResult], worst: float) -> list[float]:
    found = []
    for trial in trials:
        value = trial.values.get(metric)
        if trial.arm == arm and trial.job_failed:
            found.append(worst)
        elif trial.arm == arm and trial.counts and isinstance(value, (int, float)):
            found.append(float(value))
    return found
