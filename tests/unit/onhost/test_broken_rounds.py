"""A rank is killed or freezes in a random round of a schedule: the others get out, and go on."""

from __future__ import annotations

import signal
from contextlib import closing

import pytest

from testbed.collectives.catalogue import ALGORITHMS
from tests.unit.onhost.broken_rounds import Breaking


def lose(ranks, trials, seed):
    """Lose a rank so many times. That a later step was verified in every trial is heard there."""
    with closing(Breaking(ranks, seed)) as breaking:
        broken = [breaking.lose_one() for _ in range(trials)]
        for member in breaking.gang.members:
            assert member.process.poll() is None
            assert not member.of_kind("corrupt") and not member.of_kind("refused")
    assert {one.algorithm for one in broken} == set(ALGORITHMS)
    assert {one.fate for one in broken} == {signal.SIGKILL.name, signal.SIGSTOP.name}
    for one in broken:
        assert len(one.exits) == ranks - 1
        # Whoever had all it needed of the lost rank has done the step; nobody did more.
        assert set(one.committed) <= {0, 1}, one
    return broken


def test_survivors_leave_and_repeat_a_step_interrupted_by_the_loss_of_a_rank():
    lose(4, 6, seed=3)


@pytest.mark.soak
@pytest.mark.parametrize("ranks", [4, 8])
def test_survivors_leave_and_repeat_a_step_that_lost_a_rank_many_times(ranks):
    broken = lose(ranks, 100, seed=ranks)
    rounds = {(one.algorithm, one.round) for one in broken}
    assert len(rounds) >= 2 * len(ALGORITHMS)
