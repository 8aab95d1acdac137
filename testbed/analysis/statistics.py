"""The statistics that make a claim honest; the unit is always the trial.

Source of the rules: Hoefler and Belli, "Scientific Benchmarking of Parallel Computing Systems",
SC'15.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

_RESAMPLES = 10_000


def median_interval(
    values: Sequence[float], confidence: float = 0.95
) -> tuple[float, float] | None:
    """Return the exact interval of the median from order statistics.

    It needs no assumption about the distribution: it runs from the k-th smallest value to the k-th
    largest, with k as large as the binomial distribution allows. None when there are too few
    values (fewer than six for 95 %).
    """
    n, tail, k = len(values), 0.0, 0
    while 2 * (tail + math.comb(n, k) / 2**n) <= 1 - confidence:
        tail += math.comb(n, k) / 2**n
        k += 1
    if k == 0:
        return None
    ordered = sorted(values)
    return ordered[k - 1], ordered[n - k]


def ratio_of_medians_interval(
    over: Sequence[float], under: Sequence[float], seed: int, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of median(over) / median(under).

    The two samples are resampled independently, 10 000 times, from a generator of the given seed.
    Values may be infinite or 0, for what was worse than anything that can be measured; where both
    medians are, their ratio is nothing that is known, and counts as both ends.
    """
    import numpy as np  # `plan`, which prices nothing, does without

    chance = np.random.default_rng(seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = _medians(chance, over) / _medians(chance, under)
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


def _medians(chance: np.random.Generator, values: Sequence[float]) -> np.ndarray:
    picks = chance.integers(len(values), size=(_RESAMPLES, len(values)))
    import numpy as np

    medians: np.ndarray = np.median(np.asarray(values)[picks], axis=1)
    return medians


def share_at_least(successes: int, trials: int, confidence: float = 0.95) -> float:
    """Return the share that so many successes support, one-sided (Clopper and Pearson 1934).

    59 of 59 support 95 %.
    """
    if successes == 0:
        return 0.0
    from scipy.special import betaincinv  # a quarter of a second that few commands need

    return float(betaincinv(successes, trials - successes + 1, 1 - confidence))
