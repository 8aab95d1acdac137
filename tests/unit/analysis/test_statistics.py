"""The statistics, against brute force and printed tables."""

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.statistics import (
    median_interval,
    ratio_of_medians_interval,
    share_at_least,
)

# Ranks of the two order statistics that enclose the median with at least 95 %, by sample size:
# the table in any text on the sign test.
RANKS = {6: (1, 6), 7: (1, 7), 8: (1, 8), 9: (2, 8), 10: (2, 9), 12: (3, 10), 15: (4, 12)}
RANKS |= {20: (6, 15), 25: (8, 18), 30: (10, 21), 40: (14, 27), 50: (18, 33)}


@pytest.mark.parametrize(("n", "ranks"), RANKS.items())
def test_the_confidence_interval_of_a_median_equals_published_tables(n, ranks):
    assert median_interval(range(1, n + 1)) == ranks


@pytest.mark.parametrize("n", range(6))
def test_fewer_than_six_values_support_no_interval_at_95_percent(n):
    assert median_interval(range(n)) is None


def test_a_lower_confidence_needs_fewer_values_for_an_interval():
    assert median_interval(range(1, 6), confidence=0.9) == (1, 5)
    assert median_interval(range(1, 8), confidence=0.99) is None


@pytest.mark.parametrize("n", range(6, 13))
def test_the_interval_has_its_stated_coverage_and_the_next_narrower_one_has_less(n):
    """Every value lies above or below the median like a fair coin: count all that can happen."""
    low, high = median_interval(range(1, n + 1))

    def covered(low, high):
        return sum(low <= n - sum(above) < high for above in product((0, 1), repeat=n)) / 2**n

    assert covered(low, high) >= 0.95
    assert covered(low + 1, high - 1) < 0.95


@given(st.lists(st.floats(-1e6, 1e6), min_size=6, max_size=40))
def test_the_interval_consists_of_sample_values_and_ignores_their_order(values):
    low, high = median_interval(values)
    assert {low, high} <= set(values)
    assert low <= high
    assert median_interval(sorted(values, reverse=True)) == (low, high)


@pytest.mark.parametrize(
    ("good", "of", "share"),
    [(59, 59, 0.9505), (58, 58, 0.9497), (299, 299, 0.9900), (20, 20, 0.8609), (10, 10, 0.7411)],
)
def test_the_success_rate_proved_by_trials_without_failure_equals_textbook_values(good, of, share):
    assert share_at_least(good, of) == pytest.approx(share, abs=1.5e-4)
    assert (share_at_least(good, of) >= 0.95) == (good >= 59)


def test_a_single_failure_lowers_the_supported_share():
    # 93 of 93 with one failure among them is what 95 % takes
    assert share_at_least(92, 93) >= 0.949
    assert share_at_least(58, 59) < 0.93


@pytest.mark.parametrize("n", range(1, 12))
def test_the_supported_share_follows_the_binomial_distribution(n):
    """At that share, so many successes or more would come up in just 5 % of all runs."""
    for good in range(1, n + 1):
        share = share_at_least(good, n)
        tail = sum(
            share ** sum(runs) * (1 - share) ** (n - sum(runs))
            for runs in product((0, 1), repeat=n)
            if sum(runs) >= good
        )
        assert tail == pytest.approx(0.05, abs=1e-9)


def test_without_a_success_the_proved_success_rate_is_zero():
    assert share_at_least(0, 10) == 0.0
    assert share_at_least(0, 0) == 0.0


@given(st.integers(1, 60))
def test_more_successes_prove_a_higher_success_rate(n):
    assert all(a < b for a, b in pairwise(share_at_least(good, n) for good in range(n + 1)))


def test_the_interval_of_a_ratio_is_the_same_for_the_same_seed():
    over, under = [2.0, 2.1, 2.2, 1.9, 2.05, 2.0], [1.0, 1.1, 0.9, 1.0, 1.05, 0.95]
    found = ratio_of_medians_interval(over, under, seed=7)
    assert found == ratio_of_medians_interval(over, under, seed=7)
    assert found != ratio_of_medians_interval(over, under, seed=8)
    low, high = found
    assert 1.7 < low < 2.0 < high < 2.4


def test_samples_without_spread_have_a_ratio_with_a_zero_interval():
    assert ratio_of_medians_interval([3.0] * 6, [2.0] * 6, seed=1) == (1.5, 1.5)


def test_the_interval_of_a_ratio_has_about_its_stated_coverage():
    """Forty times two samples whose medians are 2 and 1; their ratio is 2."""
    import numpy as np

    chance = np.random.default_rng(1)
    covered = 0
    for seed in range(40):
        over, under = 2 + chance.normal(0, 0.2, 20), 1 + chance.normal(0, 0.1, 20)
        low, high = ratio_of_medians_interval(list(over), list(under), seed)
        covered += low <= 2 <= high
    assert covered >= 35
