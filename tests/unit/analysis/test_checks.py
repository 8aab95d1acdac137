"""Checks: what is claimed against what was measured, and what is missing against the claim."""

from dataclasses import replace
from itertools import permutations

import pytest

from testbed.analysis.checks import evaluate
from testbed.analysis.metric_definitions import METRICS, MetricDefinition, meaning
from testbed.analysis.metrics import metrics
from testbed.analysis.trial import TrialResult
from testbed.schema import Check, Condition
from testbed.units import SHARE, TIME


def trial(value=None, *, arm="warm", valid=True, recovered=True, predicted=None, **values):
    if value is not None:
        values["recovery_time"] = value
    expected = {} if predicted is None else {"recovery_time": predicted}
    response = {True: "recovered", False: "not recovered"}.get(recovered, recovered)
    return TrialResult(0, arm, valid, response, "", values, expected, None, None, None, {})


def check(statistic, condition, trials, *, metric="recovery_time"):
    """Evaluate one check on arm `warm`, its condition written as in a file."""
    if statistic == "near_prediction":
        share = condition.endswith("%")
        dimension = SHARE if share else TIME
        parsed = Condition("<=", dimension.parse(condition), dimension, condition)
    elif statistic == "equals":
        parsed = Condition("==", TIME.parse(condition), TIME, condition)
    elif statistic == "same_as":
        parsed = condition
    else:
        parsed = Condition.parse(condition)
    return evaluate(Check("warm", metric, statistic, parsed), trials, metrics(trials))


FAST = [trial(v) for v in (0.1, 0.2, 0.3)]
INVALID = trial(0.1, valid=False)
LOST = trial(0.1, recovered=False)
RIDDEN_OUT = trial(recovered="ridden out")
NOT_KNOWN = trial(recovered="not known")


@pytest.mark.parametrize(
    ("condition", "verdict", "value"),
    [
        ("< 0.4 s", "passed", 0.3),
        ("< 0.3 s", "failed", 0.3),
        ("<= 300 ms", "passed", 0.3),
        ("> 50 ms", "passed", 0.1),
        (">= 200 ms", "failed", 0.1),
    ],
)
def test_a_check_on_every_trial_must_hold_in_each_and_shows_the_worst_value(
    condition, verdict, value
):
    found = check("every", condition, FAST)
    assert (found.verdict, found.value) == (verdict, value)
    assert found.limit == condition


def test_a_check_on_every_trial_reports_the_success_rate_that_it_supports():
    found = check("every", "< 1 s", [trial(0.1)] * 59)
    assert found.supports == pytest.approx(0.9505, abs=1e-4)
    assert found.reason == "59 of 59 trials"
    missed = check("every", "< 1 s", [*FAST, trial(2.0)])
    assert missed.reason == "worst 2 s, not < 1 s; 3 of 4 trials"
    assert check("every", "< 1 s", [trial(2.0)]).reason == "2 s, not < 1 s; 0 of 1 trials"


@pytest.mark.parametrize(
    ("missing", "why"), [(INVALID, " (1 invalid)"), (LOST, " (1 not recovered)"), (trial(None), "")]
)
@pytest.mark.parametrize(
    ("statistic", "condition"),
    [
        ("every", "< 1 s"),
        ("max", "< 1 s"),
        ("every", "> 0 s"),
        ("min", "> 0 s"),
        ("equals", "100 ms"),
    ],
)
def test_a_trial_without_a_value_fails_a_check_on_every_trial(statistic, condition, missing, why):
    whole = [trial(0.1)] * 3
    assert check(statistic, condition, whole).verdict == "passed"
    found = check(statistic, condition, [*whole, missing])
    assert found.verdict == "failed"
    assert found.reason == f"1 of 4 trials have no value{why}"


def test_a_check_on_the_median_fails_when_most_trials_did_not_recover():
    trials = [trial(0.1), trial(0.2), LOST, LOST]
    found = check("median", "< 1 s", trials)
    assert (found.verdict, found.value) == ("failed", None)
    assert found.reason == "2 of 4 trials have no value (2 not recovered)"


@pytest.mark.parametrize("missing", [INVALID, LOST])
def test_a_trial_without_a_value_counts_as_the_worst_in_a_median(missing):
    assert check("median", "< 1 s", [trial(0.1), trial(0.2), trial(0.3), missing]).value == 0.25


@pytest.mark.parametrize("statistic", ["median", "every", "max"])
def test_ridden_out_trials_are_counted_and_not_checked_against_a_recovery_limit(statistic):
    found = check(statistic, "< 1 s", [*FAST, RIDDEN_OUT])
    assert (
        found.verdict == "passed" and "1 of 4 trials have no value (1 ridden out)" in found.reason
    )
    none = check(statistic, "< 1 s", [RIDDEN_OUT, RIDDEN_OUT])
    assert (none.verdict, none.reason) == (
        "unknown",
        "2 of 2 trials have no value (2 ridden out)",
    )
    assert check(statistic, "> 10 ms", [trial(0.001), RIDDEN_OUT]).verdict == "failed"


def test_an_unknown_recovery_makes_an_otherwise_passing_check_unknown():
    found = check("every", "< 1 s", [*FAST, NOT_KNOWN])
    assert found.verdict == "unknown"
    assert found.reason == "1 of 4 trials have no value (1 not known)"
    assert check("every", "< 0.2 s", [*FAST, NOT_KNOWN]).verdict == "failed"
    assert check("median", "< 1 s", [*FAST, NOT_KNOWN]).verdict == "passed"
    assert check("median", "< 1 s", [NOT_KNOWN]).verdict == "unknown"


@pytest.mark.parametrize("statistic", ["median", "every", "max"])
def test_too_few_valid_trials_can_fail_a_check_but_not_pass_it(statistic):
    """Two of three trials are two thirds, which is enough; one of three is not."""
    found = check(statistic, "< 1 s", [trial(0.1), INVALID, INVALID])
    assert (found.verdict, found.reason) == (
        "unknown",
        "1 of 3 trials are valid, and 67 % must be",
    )
    assert check(statistic, "< 1 s", [trial(0.1), trial(0.1), INVALID]).verdict != "unknown"
    every = check("every", "< 1 s", [trial(2.0), INVALID, INVALID])
    assert every.verdict == "failed"  # whatever the others would have been
    median = check("median", "< 1 s", [trial(2.0), INVALID, INVALID])
    assert median.verdict == "unknown"  # with two good ones it would have passed


@pytest.mark.parametrize(
    ("statistic", "condition", "verdict", "value"),
    [
        ("median", "< 0.21 s", "passed", 0.2),
        ("median", "< 0.2 s", "failed", 0.2),
        ("min", "< 0.15 s", "passed", 0.1),
        ("min", ">= 0.15 s", "failed", 0.1),
        ("max", "< 0.3 s", "failed", 0.3),
        ("max", "== 0.3 s", "passed", 0.3),
    ],
)
def test_a_statistic_of_all_trials_is_compared_with_the_limit(statistic, condition, verdict, value):
    found = check(statistic, condition, FAST)
    assert (found.verdict, found.value, found.supports) == (verdict, value, None)


@pytest.mark.parametrize(
    ("condition", "measured", "verdict", "distance"),
    [
        ("10 %", 0.11, "passed", 10),
        ("10 %", 0.112, "failed", 12),
        ("10 %", 0.088, "failed", -12),
        ("60 ms", 0.155, "passed", 0.055),
        ("60 ms", 0.165, "failed", 0.065),
        ("60 ms", 0.01, "passed", -0.09),  # faster than the model allows adds nothing to it
    ],
)
def test_the_limit_of_near_prediction_is_a_share_or_a_quantity(
    condition, measured, verdict, distance
):
    found = check("near_prediction", condition, [trial(measured, predicted=0.1)] * 3)
    assert found.verdict == verdict
    assert found.value == pytest.approx(distance)
    is_share = condition.endswith("%")
    words = f"within {condition} of" if is_share else f"at most {condition} above"
    assert found.limit == f"{words} the prediction"
    assert found.unit == ("%" if is_share else "s")
    if verdict == "failed":
        shown = f"median {measured * 1000:g} ms, predicted 100 ms"
        assert found.reason == f"{shown}, not {found.limit}"


def test_a_prediction_is_compared_with_all_trials_including_failed_ones():
    trials = [trial(0.1, predicted=0.1), *[trial(0.1, predicted=0.1, recovered=False)] * 2]
    assert check("near_prediction", "10 %", trials).verdict == "failed"


def test_a_check_against_a_missing_prediction_is_unknown():
    found = check("near_prediction", "10 %", FAST)
    assert (found.verdict, found.reason) == ("unknown", "nothing was predicted")


@pytest.mark.parametrize(("measured", "verdict"), [(0.0, "passed"), (0.001, "failed")])
def test_a_limit_relative_to_a_zero_prediction_is_zero(measured, verdict):
    found = check("near_prediction", "10 %", [trial(measured, predicted=0.0)])
    assert (found.verdict, found.value) == (verdict, None)


def same(*trials):
    return check("same_as", "cold.digest", trials, metric="digest")


def test_same_as_requires_equal_bits_in_every_trial_of_both_arms():
    a, b = trial(digest="abc"), trial(arm="cold", recovered=None, digest="abc")
    assert same(a, a, b).verdict == "passed"
    found = same(a, b, trial(arm="cold", digest="abd"))
    assert (found.verdict, found.value) == ("failed", "abc, abd")
    assert found.limit == "the same as cold.digest"


@pytest.mark.parametrize(
    "missing",
    [
        trial(digest="abc", valid=False),
        trial(digest="abc", recovered=False),
        trial(),
        trial(arm="cold", digest="abc", valid=False),
    ],
)
def test_same_as_is_unknown_where_the_fault_of_a_trial_did_not_happen(missing):
    whole = [trial(digest="abc"), trial(arm="cold", digest="abc")]
    assert same(*whole, missing).verdict == "unknown"


def test_a_check_on_an_arm_without_trials_is_unknown():
    assert same(trial(digest="abc")).verdict == "unknown"
    assert check("every", "< 1 s", []).verdict == "unknown"
    assert check("median", "< 1 s", [trial(0.1, arm="cold")]).verdict == "unknown"


def test_a_check_is_unknown_without_valid_trials_and_failed_without_recoveries():
    assert check("every", "< 1 s", [INVALID, INVALID]).verdict == "unknown"
    assert check("every", "< 1 s", [LOST, LOST]).verdict == "failed"
    assert check("median", "< 1 s", [LOST]).verdict == "failed"


def test_a_check_on_a_metric_that_no_trial_has_is_unknown():
    found = check("median", "< 1 s", FAST, metric="return_to_service")
    assert (found.verdict, found.reason) == ("unknown", "3 of 3 trials have no value")


def test_the_json_of_a_check_has_its_documented_keys():
    assert check("every", "< 1 s", FAST).to_json() == {
        "name": "warm.recovery_time every",
        "limit": "< 1 s",
        "value": 0.3,
        "verdict": "passed",
        "unit": "s",
        "reason": "3 of 3 trials",
        "supports": 0.3684,
    }
    least = {"name", "limit", "value", "verdict", "unit"}
    assert check("median", "< 1 s", FAST).to_json().keys() == least


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_verdict_of_a_check_does_not_depend_on_other_checks(order):
    """Two arms with opposite limits on one metric, and a third that nothing is asked of."""
    arms = [trial(0.5, arm=arm) for arm in ("warm", "cold", "other")]
    trials = [arms[index] for index in order]
    limits = {"warm": "< 1 s", "cold": "> 1 s", "other": "== 0.5 s"}
    found = {}
    for arm in (trials[0].arm, trials[1].arm, trials[2].arm):
        condition = Condition.parse(limits[arm])
        one = evaluate(Check(arm, "recovery_time", "every", condition), trials, metrics(trials))
        found[arm] = (one.verdict, one.limit)
    assert found == {
        "warm": ("passed", "< 1 s"),
        "cold": ("failed", "> 1 s"),
        "other": ("passed", "== 0.5 s"),
    }


def test_every_metric_states_its_better_direction():
    with pytest.raises(TypeError, match="better"):
        MetricDefinition("s", what="how long it took")
    for name in [*METRICS, "time_4kib", "algbw_1mib", "busbw_16mib"]:
        assert meaning(name).better in ("lower", "higher", "neither"), name
    room = {"smallest_window"}  # for a change
    computed = {"search_time", "routing_time"}  # of a model: a busy machine is not held against it
    times = {name for name in METRICS if meaning(name).unit == "s"} - room - computed
    assert {meaning(name).better for name in times} == {"lower"}


def test_a_check_possibly_failed_by_a_busy_machine_is_marked():
    idle, busy = trial(0.9), replace(trial(2.0), others=0.875)
    found = check("every", "< 1 s", [replace(idle, others=0.02), idle, busy])
    words = "the machine was busy in 1 of 3 trials: up to 88 % of its processors' time went to "
    assert found.reason == f"worst 2 s, not < 1 s; 2 of 3 trials; {words}other programs"
    passed = check("every", "< 3 s", [idle, busy])
    assert "busy" not in passed.reason
    assert "busy" not in check("every", "< 1 s", [trial(2.0)]).reason
