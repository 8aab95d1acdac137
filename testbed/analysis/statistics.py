"""Confidence intervals of medians, of their ratios and of success rates; the unit is the trial.

Source of the rules: Hoefler and Belli, "Scientific Benchmarking of Parallel Computing Systems",
SC'15.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_RESAMPLES = 10_000


def order_statistic(n: int, confidence: float = 0.95) -> int:
    """Return the rank k of the order statistic at which the interval of a median of `n` begins.

    It ends at the k-th largest value; k is as large as the binomial distribution allows, and 0
    where there are too few values (fewer than six for 95 %).
    """
    tail, k = 0.0, 0
    while 2 * (tail + math.comb(n, k) / 2**n) <= 1 - confidence:
        tail += math.comb(n, k) / 2**n
        k += 1
    return k


def median_interval(
    values: Sequence[float], confidence: float = 0.95
) -> tuple[float, float] | None:
    """Return the exact confidence interval of the median, from order statistics.

    It needs no assumption about the distribution. None when there are too few values.
    """
    k = order_statistic(len(values), confidence)
    ordered = sorted(values)
    return (ordered[k - 1], ordered[-k]) if k else None


def ratio_of_medians_interval(
    over: Sequence[float], under: Sequence[float], seed: int, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of median(over) / median(under).

    The two samples are resampled independently, 10 000 times, from a generator of the given seed.
    Values may be infinite or 0, for what was worse than anything that can be measured; where both
    medians are, their ratio is undefined, and counts as both ends.
    """
    import numpy as np  # `plan`, which compares nothing, does without

    rng = np.random.default_rng(seed)

    def medians(values: Sequence[float]) -> np.ndarray:
        picks = rng.integers(len(values), size=(_RESAMPLES, len(values)))
        found: np.ndarray = np.median(np.asarray(values)[picks], axis=1)
        return found

    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = medians(over) / medians(under)
    unknown = np.isnan(ratios)
    shares = (1 - confidence) / 2, (1 + confidence) / 2
    ends = [np.where(unknown, filler, ratios) for filler in (0.0, np.inf)]
    if all(np.isfinite(end).all() for end in ends):
        low, high = (np.quantile(end, at) for end, at in zip(ends, shares, strict=True))
    else:  # no number lies between a finite one and infinity
        methods = ("lower", "higher")
        low, high = (
            np.quantile(end, at, method=how)  # type: ignore[call-overload]
            for end, at, how in zip(ends, shares, methods, strict=True)
        )
    return float(low), float(high)


def share_at_least(successes: int, trials: int, confidence: float = 0.95) -> float:
    """Return the lower confidence bound of a success rate, one-sided (Clopper and Pearson 1934).

    59 successes of 59 give 95 %.
    """
    if successes == 0:
        return 0.0
    if successes == trials:  # x to the n is the distribution then
        return float((1 - confidence) ** (1 / trials))
    from scipy.special import betaincinv  # a quarter of a second that few commands need

    return float(betaincinv(successes, trials - successes + 1, 1 - confidence))
