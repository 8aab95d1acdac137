from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.onhost.errors import Corrupt
from testbed.onhost.jobs.allreduce import BLOCK, Options, Pattern


def summed(count, ranks, step):
    total = Pattern(count)
    for rank in range(ranks):
        part = Pattern(count)
        part.fill(rank, step, lambda: None)
        total.vector += part.vector
    return total


@settings(max_examples=20)
@given(st.integers(1, 3 * BLOCK), st.integers(1, 8), st.integers(0, 10**6), st.data())
def test_every_wrong_element_of_a_sum_is_found(count, ranks, step, data):
    pattern = summed(count, ranks, step)
    pattern.verify(range(ranks), step, lambda: None)
    place = data.draw(st.integers(0, count - 1))
    pattern.vector[place] += 1
    with pytest.raises(Corrupt, match=f"element {place} "):
        pattern.verify(range(ranks), step, lambda: None)


def test_the_sum_of_another_step_is_detected_as_wrong():
    with pytest.raises(Corrupt):
        summed(100, 2, 5).verify(range(2), 6, lambda: None)


def test_the_initial_values_depend_on_the_rank():
    one, other = Pattern(10), Pattern(10)
    one.fill(0, 0, lambda: None)
    other.fill(1, 0, lambda: None)
    assert (other.vector - one.vector == np.ones(10)).all()


@pytest.mark.parametrize("size", [0, 2, 1001])
def test_message_sizes_must_be_multiples_of_the_element_size(size):
    with pytest.raises(ValueError, match="not a whole number"):
        Options(sizes=[size])
