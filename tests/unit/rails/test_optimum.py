"""The best schedule of changes, and how far the three modes are from it."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.rails import optimum as search
from testbed.rails.hybrid import Hybrid, hybrid
from testbed.rails.optimum import optimum
from testbed.rails.rail_replay import Rails
from testbed.rails.replay import replay
from testbed.rails.workload import workload_of

from .profiles import crowded_switch, two_stages

DELAYS = [0.0, 0.01, 0.05, 0.1, 0.2, 1.0]
MODES = ("on-demand", "provisioned", "learned")


def iterations(workload, delay, *, one_at_a_time):
    """Return the time of an iteration in each mode."""
    return {
        mode: replay(workload, Rails(delay, mode, one_at_a_time=one_at_a_time)).iteration
        for mode in MODES
    }


@pytest.mark.parametrize("delay", DELAYS)
def test_side_by_side_the_best_is_to_begin_every_change_at_once(delay):
    for workload in (crowded_switch(), workload_of(two_stages(0.2, 0.0011))):
        found = iterations(workload, delay, one_at_a_time=False)
        assert optimum(workload, Rails(delay)) == pytest.approx(found["provisioned"])


@pytest.mark.parametrize("delay", DELAYS[1:])
def test_where_all_at_once_is_slower_than_on_demand_learned_chooses_right(delay):
    found = iterations(crowded_switch(), delay, one_at_a_time=True)
    if delay >= 0.05:
        assert found["provisioned"] > found["on-demand"] + delay / 2
    assert found["learned"] <= 1.03 * min(found.values())
    best = optimum(crowded_switch(), Rails(delay, one_at_a_time=True))
    assert best - 1e-9 <= found["learned"] <= 1.05 * best


@settings(max_examples=10)
@given(st.floats(0.01, 0.5), st.floats(0.0, 0.3), st.floats(0.001, 1.0))
def test_learned_is_close_to_the_best_whatever_the_windows_are(forward, update, delay):
    workload = hybrid(Hybrid(2, 2, 3, forward, 2 * forward, 0.01, 0.05, update=update))
    found = iterations(workload, delay, one_at_a_time=True)
    best = optimum(workload, Rails(delay, one_at_a_time=True))
    assert best <= min(found.values()) + 1e-6
    assert found["learned"] <= 1.05 * best
    assert found["learned"] <= 1.03 * min(found.values())


@pytest.mark.parametrize("delay", DELAYS[1:])
def test_nothing_that_the_search_leaves_out_is_better(delay, monkeypatch):
    rails = Rails(delay, one_at_a_time=True)
    found = optimum(crowded_switch(), rails, 1)
    monkeypatch.setattr(search, "_keep", lambda kept, way: kept.append(way))
    monkeypatch.setattr(search, "_EQUAL", -math.inf)
    assert optimum(crowded_switch(), rails, 1) == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize("delay", DELAYS[1:])
def test_the_best_order_is_between_all_modes_and_a_switch_without_an_order(delay):
    best = optimum(crowded_switch(), Rails(delay, one_at_a_time=True))
    assert best <= min(iterations(crowded_switch(), delay, one_at_a_time=True).values()) + 1e-9
    assert best >= optimum(crowded_switch(), Rails(delay)) - 1e-9
