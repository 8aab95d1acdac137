"""The number of spares that a rack needs, from the distribution of failed groups.

Groups fail independently. A shared-risk group fails as a whole: a chip, or a server (Morphlux,
section 5.3).
"""

from __future__ import annotations

from collections.abc import Sequence


def outage(active: float, repair: float) -> float:
    """Return the probability that a group is down: repair time / (active time + repair time)."""
    if active < 0 or repair < 0 or active + repair == 0:
        raise ValueError(
            f"active time {active} and repair time {repair} must be at least 0, and one above 0"
        )
    return repair / (active + repair)


def failed_groups(outages: Sequence[float]) -> list[float]:
    """Return the probability of each number of failed groups, from none to all of them.

    dp[i][k] = dp[i−1][k−1]·p_i + dp[i−1][k]·(1 − p_i). Raise ValueError for an invalid probability.
    """
    if any(not 0 <= p <= 1 for p in outages):
        raise ValueError("a probability is between 0 and 1")
    found = [1.0]
    for p in outages:
        more, same = [0.0, *found], [*found, 0.0]
        found = [a * p + b * (1 - p) for a, b in zip(more, same, strict=True)]
    return found


def spares(outages: Sequence[float], slo: float) -> int:
    """Return the smallest K with Pr(F ≥ K) ≤ 1 − `slo`, as the paper states it.

    It is one more than needed to cover the failures: spares run out when F > K. Raise ValueError
    for an invalid probability.
    """
    if not 0 <= slo <= 1:
        raise ValueError(f"a service level of {slo} is not between 0 and 1")
    found = failed_groups(outages)
    beyond, enough = 0.0, len(found)
    while enough and beyond + found[enough - 1] <= 1 - slo:
        enough -= 1
        beyond += found[enough]
    return enough


def sufficient_spares(outages: Sequence[float], slo: float) -> int:
    """Return the smallest K with Pr(F > K) ≤ 1 − `slo`: with K spares, all failures are covered."""
    return max(0, spares(outages, slo) - 1)
