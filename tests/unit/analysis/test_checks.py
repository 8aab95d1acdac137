"""Checks: what is claimed against what was measured, and what is missing against the claim."""

from itertools import permutations

import pytest

from testbed.analysis.checks import evaluate
from testbed.analysis.meaning import Meaning
from testbed.analysis.metrics import METRICS, meaning, metrics
from testbed.analysis.trial import TrialResult
from testbed.schema import Check, Condition
from testbed.units import SHARE, TIME


def trial(value=None, *, arm="warm", valid=True, recovered=True, predicted=None, **values):
    if value is not None:
        values["recovery_time"] = value
    expected = {} if predicted is None else {"recovery_time": predicted}
    response = {True: "recovered", False: "not recovered", None: None}[recovered]
    return TrialResult(0, arm, valid, response, "", values, expected, None, None, None, {})


def check(statistic, condition, trials, *, metric="recovery_time"):
    """Evaluate one check on arm `warm`, its condition written as in a file."""
    if statistic == "near_prediction":
        share = condition.endswith("%")
        dimension = SHARE if share else TIME
        parsed = Condition("<=", dimension.parse(condition), dimension, condition)
    elif statistic == "equals":
        parsed = Condition("==", float(condition), None, condition)
    elif statistic == "same_as":
        parsed = condition
    else:
        parsed = Condition.parse(condition)
    return evaluate(Check("warm", metric, statistic, parsed), trials, metrics(trials))


FAST = [trial(v) for v in (0.1, 0.2, 0.3)]
INVALID = trial(0.1, valid=False)
LOST = trial(0.1, recovered=False)


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
def test_every_trial_must_hold_and_the_worst_is_shown(condition, verdict, value):
    found = check("every", condition, FAST)
    assert (found.verdict, found.value) == (verdict, value)
    assert found.limit == condition


def test_what_every_trial_supports_is_told():
    found = check("every", "< 1 s", [trial(0.1)] * 59)
    assert found.supports == pytest.approx(0.9505, abs=1e-4)
    assert found.reason == "59 of 59 trials"
    assert check("every", "< 1 s", [*FAST, trial(2.0)]).reason == "3 of 4 trials"


@pytest.mark.parametrize("missing", [INVALID, LOST, trial(None)])
@pytest.mark.parametrize(
    ("statistic", "condition"),
    [("every", "< 1 s"), ("max", "< 1 s"), ("every", "> 0 s"), ("min", "> 0 s"), ("equals", "0.1")],
)
def test_a_trial_without_a_value_counts_against(statistic, condition, missing):
    whole = [trial(0.1)] * 3
    assert check(statistic, condition, whole).verdict == "passed"
    found = check(statistic, condition, [*whole, missing])
    assert found.verdict == "failed"
    assert found.reason == "1 of 4 trials have no value"


@pytest.mark.parametrize("missing", [INVALID, LOST])
def test_a_median_of_the_lucky_ones_is_no_median(missing):
    trials = [trial(0.1), trial(0.2), missing, missing]
    found = check("median", "< 1 s", trials)
    assert (found.verdict, found.value) == ("failed", None)
    assert check("median", "< 1 s", [trial(0.1), trial(0.2), trial(0.3), missing]).value == 0.25


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
def test_one_number_of_all_trials_is_held_against_the_limit(statistic, condition, verdict, value):
    found = check(statistic, condition, FAST)
    assert (found.verdict, found.value, found.supports) == (verdict, value, None)


@pytest.mark.parametrize(
    ("condition", "measured", "verdict", "distance"),
    [
        ("10 %", 0.11, "passed", 0.1),
        ("10 %", 0.112, "failed", 0.12),
        ("10 %", 0.088, "failed", -0.12),
        ("60 ms", 0.155, "passed", 0.055),
        ("60 ms", 0.165, "failed", 0.065),
        ("60 ms", 0.01, "passed", -0.09),  # faster than the model allows adds nothing to it
    ],
)
def test_a_prediction_is_a_share_away_or_a_quantity_exceeded(
    condition, measured, verdict, distance
):
    found = check("near_prediction", condition, [trial(measured, predicted=0.1)] * 3)
    assert found.verdict == verdict
    assert found.value == pytest.approx(distance)
    assert found.limit == f"within {condition} of the prediction"


def test_a_prediction_is_held_against_all_trials_and_not_the_lucky_ones():
    trials = [trial(0.1, predicted=0.1), *[trial(0.1, predicted=0.1, recovered=False)] * 2]
    assert check("near_prediction", "10 %", trials).verdict == "failed"


def test_what_nobody_predicted_is_unknown():
    found = check("near_prediction", "10 %", FAST)
    assert (found.verdict, found.reason) == ("unknown", "nothing was predicted")


@pytest.mark.parametrize(("measured", "verdict"), [(0.0, "passed"), (0.001, "failed")])
def test_a_share_of_a_prediction_of_nothing_is_nothing(measured, verdict):
    found = check("near_prediction", "10 %", [trial(measured, predicted=0.0)])
    assert (found.verdict, found.value) == (verdict, None)


def same(*trials):
    return check("same_as", "cold.digest", trials, metric="digest")


def test_the_same_to_the_last_bit_in_every_trial_of_both_arms():
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
def test_a_trial_that_was_never_disturbed_proves_no_sameness(missing):
    whole = [trial(digest="abc"), trial(arm="cold", digest="abc")]
    assert same(*whole, missing).verdict == "unknown"


def test_an_arm_without_a_trial_proves_nothing():
    assert same(trial(digest="abc")).verdict == "unknown"
    assert check("every", "< 1 s", []).verdict == "unknown"
    assert check("median", "< 1 s", [trial(0.1, arm="cold")]).verdict == "unknown"


def test_when_no_trial_is_valid_nothing_is_known_but_when_none_recovered_it_is():
    assert check("every", "< 1 s", [INVALID, INVALID]).verdict == "unknown"
    assert check("every", "< 1 s", [LOST, LOST]).verdict == "failed"
    assert check("median", "< 1 s", [LOST]).verdict == "failed"


def test_a_metric_that_no_trial_has_is_unknown():
    found = check("median", "< 1 s", FAST, metric="return_to_service")
    assert (found.verdict, found.reason) == ("unknown", "no trial has a value")


def test_what_other_tools_read_of_a_check():
    assert check("every", "< 1 s", FAST).to_json() == {
        "name": "warm.recovery_time every",
        "limit": "< 1 s",
        "value": 0.3,
        "verdict": "passed",
        "reason": "3 of 3 trials",
        "supports": 0.3684,
    }
    assert check("median", "< 1 s", FAST).to_json().keys() == {"name", "limit", "value", "verdict"}


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_check_knows_nothing_of_the_checks_beside_it(order):
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


def test_no_metric_is_without_a_direction_and_nobody_guesses_one():
    with pytest.raises(TypeError, match="better"):
        Meaning("s", what="how long it took")
    for name in [*METRICS, "time_4kib", "algbw_1mib", "busbw_16mib"]:
        assert meaning(name).better in ("lower", "higher", "neither"), name
    times = {name for name in METRICS if meaning(name).unit == "s"}
    assert {meaning(name).better for name in times} == {"lower"}
