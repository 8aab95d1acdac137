from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.onhost.communication.communicator import chunk_bounds
from testbed.onhost.errors import Corrupt
from testbed.onhost.jobs.optimiser import BLOCK, EPSILON, FIRST_DECAY, SECOND_DECAY, Adam
from testbed.onhost.jobs.verified_sum import VerifiedVector, sentinels


def go_on():
    pass


def test_the_adam_update_equals_its_published_definition():
    size, rate = BLOCK + 100, 0.01
    random = np.random.default_rng(0)
    states = [np.zeros(3 * size, np.float32) for _ in range(2)]
    states[0][:size] = weight = random.normal(size=size)
    first = second = np.zeros(size)
    for step in range(3):
        gradient = random.normal(size=size)
        old, new = states
        for start, end in ((0, 500), (500, size)):
            part = gradient[start:end].astype(np.float32)
            Adam(rate).update(old, new, part, start, step, go_on)
        states.reverse()
        first = FIRST_DECAY * first + (1 - FIRST_DECAY) * gradient
        second = SECOND_DECAY * second + (1 - SECOND_DECAY) * gradient**2
        corrected = second / (1 - SECOND_DECAY ** (step + 1))
        change = first / (1 - FIRST_DECAY ** (step + 1)) / (np.sqrt(corrected) + EPSILON)
        weight = weight - rate * change
        np.testing.assert_allclose(states[0], np.concatenate([weight, first, second]), atol=1e-5)


def summed(size, ranks, step, contributions):
    """Return an total after the sum over the given ranks' values, all of them ones."""
    total = VerifiedVector(size, ranks, ranks)
    for rank, of_step in contributions:
        one = VerifiedVector(size, ranks, ranks)
        one.fill(np.ones(size, np.float32), of_step, rank)
        total.vector += one.vector
    return total


@given(st.integers(1, 60), st.integers(1, 8), st.integers(0, 10**6))
def test_a_correct_gradient_sum_passes_and_contains_every_value_once(size, ranks, step):
    total = summed(size, ranks, step, [(rank, step) for rank in range(ranks)])
    total.verify(step)
    values = np.concatenate([sums for _, sums in total.places])
    assert (values == np.full(size, ranks)).all()
    assert [start for start, _ in total.places] == list(
        np.cumsum([0, *(len(sums) for _, sums in total.places)])[:-1]
    )


@given(st.data())
def test_a_wrong_contribution_to_any_chunk_of_a_gradient_sum_is_detected(data):
    ranks = data.draw(st.integers(2, 8))
    step = data.draw(st.integers(1, 10**6))
    total = summed(50, ranks, step, [(rank, step) for rank in range(ranks)])
    start, end = data.draw(st.sampled_from(chunk_bounds(total.vector.size, ranks)))
    victim, other = data.draw(st.permutations(range(ranks)))[:2]
    what = data.draw(st.sampled_from(["missing", "twice", "stale", "exchanged"]))

    def part(rank, of_step):
        return summed(50, ranks, step, [(rank, of_step)]).vector[start:end]

    total.vector[start:end] -= 0 if what == "twice" else part(victim, step)
    if what == "twice":
        total.vector[start:end] += part(victim, step)
    elif what == "stale":
        total.vector[start:end] += part(victim, step - 1)
    elif what == "exchanged":
        total.vector[start:end] += part(other, step)
    with pytest.raises(Corrupt, match="sentinel"):
        total.verify(step)


def test_a_loss_that_is_nan_is_reported_as_corrupt():
    total = summed(5, 2, 0, [(0, 0), (1, 0)])
    _, last_chunk = total.places[-1]
    last_chunk[-1] = np.nan
    with pytest.raises(Corrupt, match="losses"):
        total.verify(0)


def test_sums_of_sentinels_are_exact_for_256_ranks():
    whole = sum(sentinels(rank, 9, 256).astype(np.int64) for rank in range(256))
    assert whole.max() < 2**24
    assert (np.sum([sentinels(rank, 9, 256) for rank in range(256)], axis=0) == whole).all()
