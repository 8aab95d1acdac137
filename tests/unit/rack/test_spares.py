"""Spares for groups that fail independently: against every outcome, and the table of the paper."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from math import prod

import pytest

from testbed.rack.spares import failed_groups, outage, spares, sufficient_spares


def every_outcome(outages: list[float]) -> list[float]:
    """Return the probability of each number of failures, one outcome after the other."""
    found = [0.0] * (len(outages) + 1)
    for failed in product((False, True), repeat=len(outages)):
        each = zip(outages, failed, strict=True)
        found[sum(failed)] += prod(p if down else 1 - p for p, down in each)
    return found


@pytest.mark.parametrize("groups", range(13))
def test_the_distribution_of_failed_groups_equals_brute_force(groups: int) -> None:
    rng = random.Random(groups)
    outages = [rng.random() ** 3 for _ in range(groups)]
    found, brute = failed_groups(outages), every_outcome(outages)
    assert max(abs(a - b) for a, b in zip(found, brute, strict=True)) < 1e-12
    for slo in (0.5, 0.9, 0.95, 0.999):
        k = spares(outages, slo)
        assert sum(brute[k:]) <= 1 - slo < sum(brute[k - 1 :])
        enough = sufficient_spares(outages, slo)
        assert sum(brute[enough + 1 :]) <= 1 - slo
        assert enough == 0 or sum(brute[enough:]) > 1 - slo


@pytest.mark.parametrize(
    ("groups", "low", "high", "usual", "least", "most"),
    [
        (64, 0.00, 0.01, 2, 2, 3),
        (64, 0.01, 0.03, 4, 4, 5),
        (64, 0.03, 0.05, 6, 6, 7),
        (16, 0.00, 0.01, 2, 1, 2),
        (16, 0.01, 0.03, 2, 2, 3),
        (16, 0.03, 0.05, 3, 3, 3),
    ],
)
def test_the_numbers_of_spares_equal_the_table_of_the_paper(
    groups: int, low: float, high: float, usual: int, least: int, most: int
) -> None:
    """Morphlux, figure 5: 4 chips or 2 servers in most cases; 95 % of the time."""
    rng, came = random.Random(5), Counter[int]()
    for _ in range(60):
        came[spares([rng.uniform(low, high) for _ in range(groups)], 0.95)] += 1
    print(groups, low, high, dict(came))
    assert came.most_common(1)[0][0] == usual
    assert least <= min(came)
    assert max(came) <= most


def test_the_outage_of_a_group_is_its_share_of_time_under_repair() -> None:
    assert outage(active=99.0, repair=1.0) == pytest.approx(0.01)
    with pytest.raises(ValueError, match="must be at least 0, and one above 0"):
        outage(0, 0)


def test_probabilities_of_zero_and_one_are_exact() -> None:
    assert failed_groups([1.0, 0.0, 1.0]) == [0, 0, 1, 0]
    assert spares([0.0] * 8, 0.95) == 1  # as the paper states it; none is ever used
    assert sufficient_spares([0.0] * 8, 0.95) == 0
    assert sufficient_spares([1.0] * 8, 0.95) == 8


@pytest.mark.parametrize(("outages", "slo"), [([1.1], 0.5), ([-0.1], 0.5), ([0.1], 1.5)])
def test_an_invalid_probability_is_refused(outages: list[float], slo: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        spares(outages, slo)
