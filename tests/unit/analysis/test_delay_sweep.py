"""Where StragglAR and the ring cross: read off planted sweeps of delays."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.delay_sweep import crossing, with_crossings
from testbed.analysis.trial import TrialResult
from testbed.schema import load_experiment

EXPERIMENT = load_experiment(Path(__file__).parents[3] / "experiments" / "stragglar.yaml")
DELAYS = {
    "n8-d0": 0.002,
    "n8-d025": 0.13,
    "n8-d05": 0.26,
    "n8-d1": 0.53,
    "n8-d2": 1.05,
    "n8-d4": 2.1,
}
"""By arm, how late the last rank was in truth."""


def trial(number, arm, skew, ours, ring):
    values = {"skew": skew, "total_stragglar_7mib": ours, "total_ring_7mib": ring}
    return TrialResult(number, arm, True, None, "", values, {}, None, None, None, {})


def planted(at, *, first=0):
    """Return one trial of each arm in which StragglAR is `at` seconds of delay behind the ring."""
    found = [
        trial(first + place, arm, delay, 1.0 + at, 1.0 + delay)
        for place, (arm, delay) in enumerate(DELAYS.items())
    ]
    return [*found, trial(first + 10, "n8-wrong", 0.05, 0.1, 2.0)]


def crossings(trials):
    found = with_crossings(EXPERIMENT.arms(), trials)
    return {t.number: t.values["critical_delay"] for t in found if "critical_delay" in t.values}


@given(st.floats(0.003, 2.0))
def test_the_delay_where_two_algorithms_take_equal_time_is_found(at):
    assert crossings(planted(at)) == {0: pytest.approx(at)}


def test_only_the_delays_next_to_the_crossing_determine_it():
    trials = planted(0.2)
    slow = {**trials[0].values, "total_stragglar_7mib": 1.9}
    assert crossings([replace(trials[0], values=slow), *trials[1:]]) == {0: pytest.approx(0.2)}


def test_each_trial_of_the_arms_gives_a_crossing_of_its_own():
    found = crossings(planted(0.1) + planted(0.3, first=20))
    assert found == {0: pytest.approx(0.1), 20: pytest.approx(0.3)}


@pytest.mark.parametrize("at", [-0.1, 2.2])
def test_a_crossing_outside_the_sweep_is_not_reported(at):
    assert crossings(planted(at)) == {}


def test_a_sweep_with_an_invalid_trial_has_no_crossing():
    trials = planted(0.2)
    assert crossings([*trials[:2], replace(trials[2], valid=False), *trials[3:]]) == {}
    assert crossings(trials[:1]) == {}


def test_a_trial_without_both_times_is_left_out_of_the_sweep():
    for at, found in ((0.05, {}), (0.2, {0: pytest.approx(0.2)})):
        trials = planted(at)
        assert crossings([replace(trials[0], values={"skew": 0.0}), *trials[1:]]) == found


def test_experiments_without_arms_that_differ_in_delay_have_no_critical_delay():
    other = load_experiment(Path(__file__).parents[3] / "experiments" / "lumion.yaml")
    trials = planted(0.2)
    assert with_crossings(other.arms(), trials) == trials


def test_a_crossing_at_a_measured_delay_is_that_delay():
    assert crossing([(0.0, 1.0), (0.5, 0.0), (1.0, -1.0)]) == 0.5
    assert crossing([(1.0, -1.0), (0.0, 1.0)]) == 0.5
    assert crossing([]) is None
