"""A sum is verified against what the ranks say that they gave: right ones pass, wrong ones show."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.onhost.errors import Corrupt
from testbed.onhost.jobs.checksums import BLOCK, EVERY, WEIGHTS
from testbed.onhost.jobs.verified_sum import VerifiedVector

SIZE = 5 * BLOCK + 321


def gradients(seed, ranks, size=SIZE):
    """Return what each rank gives: numbers of very different sizes, as in a real gradient."""
    random = np.random.default_rng(seed)
    scale = 10.0 ** random.uniform(-12, 2, size)
    return [(random.normal(size=size) * scale).astype(np.float32) for _ in range(ranks)]


def summed(values, step, *, chunks=3, whole=True, order=None):
    """Return the sum over the ranks, added in some order, and where each rank's numbers went."""
    ranks = len(values)
    total = VerifiedVector(values[0].size, ranks, chunks)
    for rank in order or range(ranks):
        one = VerifiedVector(values[0].size, ranks, chunks)
        one.fill(values[rank], step, rank, whole=whole)
        total.vector += one.vector
    return total


def at(total, element):
    """Return the place of an element in an total's rows: a view of one number."""
    for start, place in total.places:
        if start <= element < start + len(place):
            return place[element - start : element - start + 1]
    raise IndexError(element)


@given(
    seed=st.integers(0, 2**32),
    ranks=st.integers(1, 9),
    chunks=st.integers(1, 9),
    step=st.integers(0, 1000),
    whole=st.booleans(),
    order=st.randoms(),
)
def test_a_correct_sum_passes_verification_whatever_the_order_of_rounding(
    seed, ranks, chunks, step, whole, order
):
    shuffled = list(range(ranks))
    order.shuffle(shuffled)
    values = gradients(seed, ranks)
    total = summed(values, step, chunks=chunks, whole=whole, order=shuffled)
    verified = total.verify(step, whole=whole)
    assert verified == SIZE if whole else 0 < verified <= SIZE


@given(
    seed=st.integers(0, 2**32),
    ranks=st.integers(2, 6),
    chunks=st.integers(1, 6),
    element=st.integers(0, SIZE - 2),
)
def test_a_wrong_element_is_detected_with_its_block(seed, ranks, chunks, element):
    values = gradients(seed, ranks)
    total = summed(values, 3, chunks=chunks)
    at(total, element)[0] += 0.01 * max(np.abs(one).max() for one in values)
    with pytest.raises(Corrupt, match="but the ranks' contributions add up to") as caught:
        total.verify(3)
    first, last = map(int, re.findall(r"elements (\d+) to (\d+)", str(caught.value))[0])
    assert first <= element <= last < first + BLOCK


@pytest.mark.parametrize("what", ["missing", "twice", "exchanged", "another", "no number"])
def test_checksums_find_errors_that_sentinels_miss(what):
    values = gradients(1, 3)
    total = summed(values, 5)
    start, place = total.places[1]
    part = slice(start, start + len(place))
    if what == "missing":  # of one rank, in all of a chunk, as the same wrong chunk on all ranks
        place -= values[2][part]
    elif what == "twice":
        place += values[2][part]
    elif what == "exchanged":
        place[[7, 8]] = place[[8, 7]]
    elif what == "another":
        place[:] = total.places[0][1][: len(place)]
    else:
        place[11] = np.nan
    with pytest.raises(Corrupt, match="step 5 elements"):
        total.verify(5)


def test_every_block_is_verified_within_16_steps():
    values = gradients(2, 2)
    most = max(np.abs(one).max() for one in values)
    for element in (0, BLOCK, 2 * BLOCK + 17, SIZE - 2):
        found = 0
        for step in range(EVERY):
            total = summed(values, step, whole=False)
            at(total, element)[0] += most
            try:
                total.verify(step, whole=False)
            except Corrupt:
                found += 1
        assert found >= 1


def test_one_step_verifies_a_sixteenth_of_the_blocks_of_a_large_sum():
    """What makes it cheap: wrong blocks whose turn it is not pass."""
    values = gradients(2, 2, 100 * BLOCK)
    seen = 0
    for block in range(0, 100, 7):
        total = summed(values, 0, chunks=1, whole=False)
        at(total, block * BLOCK)[0] += 1e6
        try:
            total.verify(0, whole=False)
        except Corrupt:
            seen += 1
    assert 0 < seen < 15


def test_checksum_weights_are_equal_on_all_ranks_and_pairwise_different():
    assert len(set(WEIGHTS.tolist())) == BLOCK
    assert 1 <= np.abs(WEIGHTS).min() <= np.abs(WEIGHTS).max() < 2
    assert WEIGHTS[:3].tolist() == [-1.0, 1.6180267333984375, -1.236053466796875]
