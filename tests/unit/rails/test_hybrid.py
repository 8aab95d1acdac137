"""The model of hybrid-parallel training, what its iterations take, and what a delay costs them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.rails.hybrid import Hybrid, hybrid, order_of, ring_all_reduce
from testbed.rails.rail_replay import Rails
from testbed.rails.replay import replay
from testbed.rails.stalls import break_even, formula, stalls

SMALL = Hybrid(2, 2, 4, forward=0.1, backward=0.2, transfer=0.01, all_reduce=0.2, update=0.05)


def test_1f1b_runs_forward_ahead_by_the_pipeline_stages_behind():
    job = Hybrid(3, 1, 4, 0.1, 0.2, 0.0, 0.0)
    assert [f"{what[0]}{n}" for what, n in order_of(job, 0)] == [
        *("f0", "f1", "f2", "b0", "f3", "b1", "b2", "b3")
    ]
    assert [f"{what[0]}{n}" for what, n in order_of(job, 2)] == [
        *("f0", "b0", "f1", "b1", "f2", "b2", "f3", "b3")
    ]


@pytest.mark.parametrize("order", ["gpipe", "1f1b"])
@settings(max_examples=20)
@given(st.integers(1, 4), st.integers(1, 6), st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_an_iteration_of_a_pipeline_takes_its_micro_batches_and_its_bubble(
    order, pp, micro_batches, forward, backward
):
    job = Hybrid(pp, 2, micro_batches, forward, backward, 0.0, 0.0, order)
    expected = (micro_batches + pp - 1) * (forward + backward)
    found = replay(hybrid(job), Rails(0.0)).iteration
    assert found == pytest.approx(expected)


def test_a_ring_sums_in_twice_the_bytes_less_one_share():
    assert ring_all_reduce(4, 1e9, 8e9) == pytest.approx(1.5)


@pytest.mark.parametrize("mode", ["on-demand", "provisioned", "learned"])
def test_without_a_delay_all_modes_take_the_same(mode):
    assert replay(hybrid(SMALL), Rails(0.0, mode)).iteration == pytest.approx(1.83)


@settings(max_examples=20)
@given(st.floats(0.001, 2.0))
def test_provisioned_and_learned_are_never_slower_than_on_demand(delay):
    times = {
        mode: replay(hybrid(SMALL), Rails(delay, mode)).iteration
        for mode in ("on-demand", "provisioned", "learned")
    }
    assert times["provisioned"] <= times["on-demand"] + 1e-9
    assert times["learned"] <= 1.03 * min(times.values())


def test_the_closed_formula_is_no_less_than_the_replay_where_stages_of_ranks_overlap():
    for stall in stalls(hybrid(SMALL), [0.01, 0.1, 1.0], ["on-demand", "provisioned"]):
        assert stall.stall <= stall.formula + 1e-9
        assert stall.overhead == pytest.approx(stall.stall / 1.83)


def test_the_formula_takes_the_rank_with_the_largest_sum():
    still = replay(hybrid(SMALL), Rails(0.0))
    assert formula(still.changes, 0.1, "on-demand") == pytest.approx(0.2)
    assert formula((), 0.1, "on-demand") == 0.0


def test_break_even_is_the_delay_that_makes_an_iteration_longer_by_the_share():
    rails = Rails(mode="on-demand")
    delay = break_even(hybrid(SMALL), rails, 0.05)
    assert delay == pytest.approx(0.05 * 1.83 / 2, rel=1e-6)
    alone = Hybrid(2, 1, 4, 0.1, 0.2, 0.01, 0.0)
    assert break_even(hybrid(alone), rails, 0.05) == 3600.0


def test_a_switch_that_makes_one_change_at_a_time_keeps_others_waiting():
    side_by_side = replay(hybrid(SMALL), Rails(0.1)).iteration
    in_turn = replay(hybrid(SMALL), Rails(0.1, one_at_a_time=True)).iteration
    assert in_turn > side_by_side + 0.05
