"""Who is always last, on arrivals written by hand."""

import math
import random

import pytest

from testbed.analysis.clocks import Instant
from testbed.analysis.straggler import find_straggler


def arrivals(*times, bound=0.0):
    return {rank: Instant(t - bound, t + bound) for rank, t in enumerate(times)}


def test_the_rank_that_is_always_last_is_named_with_its_gap():
    found = find_straggler([arrivals(0.0, 0.01, 0.3), arrivals(1.02, 1.0, 1.22)] * 4)
    assert found.rank == 2
    assert found.gap == pytest.approx((0.29 + 0.2) / 2)
    assert found.confidence == pytest.approx(1 - 3 / 3**8)


def test_one_collective_does_not_identify_a_straggler():
    assert find_straggler([arrivals(0.0, 1.0)]).confidence == 0.0


def test_ranks_that_are_last_in_turn_are_no_stragglers():
    turns = [arrivals(*(float(rank == number % 4) for rank in range(4))) for number in range(40)]
    assert find_straggler(turns).confidence == 0.0


def test_a_rank_last_within_the_clock_error_does_not_count_as_last():
    assert find_straggler([arrivals(0.0, 0.001, bound=0.002)] * 50) is None
    assert find_straggler([arrivals(0.0, 0.005, bound=0.002)] * 50).rank == 1


def test_a_straggler_that_is_not_always_last_is_still_found():
    chance = random.Random(7)
    seen = [
        arrivals(*(chance.random() for _ in range(7)), 1 + chance.random() - 0.2) for _ in range(60)
    ]
    found = find_straggler(seen)
    assert found.rank == 7
    assert found.confidence > 0.999


def test_noise_alone_rarely_produces_a_straggler():
    """Of runs in which all are alike, at most one in twenty may reach a confidence of 95 %."""
    chance = random.Random(7)
    false = 0
    for _ in range(200):
        seen = [arrivals(*(chance.random() for _ in range(8))) for _ in range(40)]
        false += find_straggler(seen).confidence >= 0.95
    assert false <= 10


@pytest.mark.parametrize("nothing", [[], [arrivals(0.0)]])
def test_without_waiting_ranks_there_is_no_straggler(nothing):
    assert find_straggler(nothing) is None


def test_of_thousands_of_collectives_the_chance_is_still_that_of_the_binomial_tail():
    """There are more choices of half of 3 000 than a float can be."""
    seen = [arrivals(0.0, 1.0)] * 1550 + [arrivals(1.0, 0.0)] * 1450
    tail = sum(math.comb(3000, hits) for hits in range(1550, 3001)) / 2**3000
    assert find_straggler(seen).confidence == pytest.approx(1 - 2 * tail, abs=1e-9)
