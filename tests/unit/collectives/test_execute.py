"""S2 on paper: what the buffers hold in the end, for any size, reduction and straggler."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.collectives.broadcasts import chain
from testbed.collectives.catalogue import ALGORITHMS, all_reduce
from testbed.collectives.exchanges import all_to_all
from testbed.collectives.rings import all_gather, reduce_scatter, ring
from testbed.onhost.communication.communicator import chunk_bounds
from tests.unit.collectives.execute import execute

EVEN = st.sampled_from([2, 4, 6, 8, 10, 16])


@given(EVEN, st.sampled_from(ALGORITHMS), st.integers(0, 60), st.integers(0, 15), st.randoms())
def test_integer_sums_and_maxima_are_exact_for_every_all_reduce(
    ranks, algorithm, size, straggler, random
) -> None:
    schedule = all_reduce(algorithm, ranks, straggler % ranks)
    buffers = np.random.default_rng(random.randrange(2**32)).integers(-999, 999, (ranks, size))
    assert (execute(schedule, buffers) == buffers.sum(axis=0)).all()
    assert (execute(schedule, buffers, "max") == buffers.max(axis=0, initial=-999)).all()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("ranks", [4, 6, 8])
@pytest.mark.parametrize("size", [1, 1000, 1001])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_sums_of_floats_are_close_and_every_rank_has_the_same_bits(
    algorithm, ranks, size, reduction
) -> None:
    buffers = np.random.default_rng(size).standard_normal((ranks, size)).astype(np.float32) + 3
    result = execute(all_reduce(algorithm, ranks), buffers, reduction)
    expected = getattr(buffers.astype(np.float64), reduction)(axis=0)
    np.testing.assert_allclose(result[0], expected, rtol=1e-6)
    assert result.dtype == np.float32
    assert len({row.tobytes() for row in result}) == 1


def test_a_mean_of_whole_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="a mean of int64 is no int64"):
        execute(ring(2), np.zeros((2, 4), np.int64), "mean")


def test_too_few_buffers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the shape \(3, 4\) for a schedule of 4 ranks"):
        execute(ring(4), np.zeros((3, 4)))


def test_input_buffers_are_not_modified() -> None:
    buffers = np.arange(8).reshape(2, 4)
    execute(ring(2), buffers)
    assert (buffers == np.arange(8).reshape(2, 4)).all()


@pytest.mark.parametrize("size", [3, 8, 17])
def test_reduce_scatter_and_all_gather_are_the_halves_of_a_ring(size: int) -> None:
    buffers = np.random.default_rng(1).integers(0, 99, (5, size))
    half = execute(reduce_scatter(5), buffers)
    for rank, (start, end) in enumerate(chunk_bounds(size, 5)):
        assert (half[rank, start:end] == buffers[:, start:end].sum(axis=0)).all()
    assert (execute(all_gather(5), half) == buffers.sum(axis=0)).all()


@pytest.mark.parametrize("ranks", [2, 5, 6])
def test_all_to_all_delivers_every_chunk_to_its_rank(ranks: int) -> None:
    parcels = np.zeros((ranks, ranks * ranks), np.int64)
    for source in range(ranks):
        for destination in range(ranks):
            parcels[source, source * ranks + destination] = 100 * source + destination + 1
    result = execute(all_to_all(ranks), parcels)
    for destination in range(ranks):
        received = result[destination].reshape(ranks, ranks)[:, destination]
        assert received.tolist() == [100 * source + destination + 1 for source in range(ranks)]


def test_a_chain_delivers_the_buffer_unchanged() -> None:
    buffers = np.random.default_rng(2).standard_normal((6, 11))
    assert (execute(chain(6, 4), buffers)[5] == buffers[0]).all()


def test_an_unknown_reduction_is_refused() -> None:
    with pytest.raises(ValueError, match="'product' is none of sum, mean, max"):
        execute(ring(2), np.zeros((2, 4)), "product")


def test_buffers_without_rows_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the shape \(2,\)"):
        execute(ring(2), np.zeros(2))


def test_a_mean_of_halves_does_not_overflow() -> None:
    buffers = np.full((4, 7), 60_000, np.float16)
    result = execute(ring(4), buffers, "mean")
    assert result.dtype == np.float16
    assert (result == buffers).all()


def test_a_mean_of_bfloat16_is_one() -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    buffers = np.array([[1, 2, 3], [3, 2, 5]], bfloat16)
    result = execute(ring(2), buffers, "mean")
    assert result.dtype == bfloat16
    assert result.astype(float).tolist() == [[2, 2, 4], [2, 2, 4]]
