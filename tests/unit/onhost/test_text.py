from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from testbed.onhost.jobs.prose import PROSE
from testbed.onhost.jobs.text import batch


def test_the_training_text_is_long_enough():
    assert len(PROSE.encode()) >= 6 << 10


@given(st.integers(0, 2**63), st.integers(0, 2**40), st.integers(0, 300))
def test_training_targets_are_the_tokens_one_position_further(seed, step, rank):
    tokens, targets = batch(seed, step, rank, sequences=2, length=16)
    assert (tokens[:, 1:] == targets[:, :-1]).all()
    for row, last in zip(tokens, targets[:, -1], strict=True):
        assert bytes(row.tolist()) + bytes([last]) in PROSE.encode()


@given(st.integers(0, 1000))
def test_a_training_batch_depends_on_seed_step_and_rank_only(step):
    assert (batch(1, step, 2, 3, 32)[0] == batch(1, step, 2, 3, 32)[0]).all()


def test_different_seeds_steps_and_ranks_read_different_positions_of_the_text():
    places = {
        batch(*key, 1, 64)[0].tobytes() for key in [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1)]
    }
    assert len(places) == 4
