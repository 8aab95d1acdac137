"""What of a run turns a night red: from summaries as runs write them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.nightly.process import Ended
from testbed.nightly.task_order import Task
from testbed.nightly.verdict import Result, judge
from tests.unit.nightly.nights import shipped_pair

FULL = Task(shipped_pair("lumion", "rack"), 10, True, "", 60.0, "same")
ONCE = replace(FULL, trials=1, is_full=False)
ELSEWHERE = replace(FULL, pair=shipped_pair("lumion", "serial-rack"))


def trial(**changes):
    usual = {"trial": 0, "variant": "a", "valid": True, "outcome": "recovered", "reason": ""}
    return usual | {"values": {"recovery_time": 0.5}} | changes


def check(statistic, limit, verdict, value=0.5):
    name = f"a.recovery_time {statistic}"
    return {"name": name, "limit": limit, "value": value, "verdict": verdict, "unit": "s"}


def result(task, *checks, code=0, trials=None, why="", said="", **changes):
    summary = {
        "run": "r",
        "reason": "as it is",
        "left": [],
        "trials": [trial()] if trials is None else trials,
        "checks": list(checks),
    }
    ended = Ended(code, summary | changes if code >= 0 else None, 10.0, said, why)
    return Result(task, "r", 10.0, tuple(judge(task, ended)))


def word(*arguments, **changes):
    return result(*arguments, **changes).word


MISSED = [
    ("every", "< 1 s", True),
    ("equals", "30", True),
    ("same_as", "the same as b.digest", True),
    ("min", ">= 300 ms", True),
    ("max", "<= 2 s", True),
    ("min", "< 300 ms", False),
    ("max", "> 2 s", False),
    ("median", "< 1 s", False),
    ("near_prediction", "within 10 % of the prediction", False),
]


@pytest.mark.parametrize(("statistic", "limit", "is_final"), MISSED)
def test_a_single_trial_fails_only_checks_that_more_trials_cannot_reverse(
    statistic, limit, is_final
):
    missed = check(statistic, limit, "failed")
    assert word(FULL, missed, code=1) == "failed"
    assert word(ONCE, missed, code=1) == ("failed" if is_final else "passed")


@pytest.mark.parametrize(("statistic", "limit", "is_final"), MISSED)
def test_on_another_lab_than_the_experiments_only_correctness_is_judged(statistic, limit, is_final):
    is_value = statistic in ("equals", "same_as")
    missed = check(statistic, limit, "failed")
    assert word(ELSEWHERE, missed, code=1) == ("failed" if is_value else "passed")


def test_a_check_that_stays_unknown_in_a_full_run_is_an_error():
    unknown = check("every", "< 1 s", "unknown", None)
    assert (word(FULL, unknown, code=3), word(ONCE, unknown, code=3)) == ("error", "passed")


@pytest.mark.parametrize("task", [FULL, ONCE, ELSEWHERE])
def test_a_failed_trial_fails_on_every_lab_with_its_reason(task):
    wrong = trial(outcome="failed", reason="h2: element 7 of step 3 is wrong")
    found = result(task, code=1, trials=[trial(), wrong])
    assert found.word == "failed"
    assert [(case.name, case.reason) for case in found.failures] == [
        ("trial 0 of a", "h2: element 7 of step 3 is wrong")
    ]


@pytest.mark.parametrize("code", [2, 4, 5, 6, 70, 137])
def test_a_lab_error_is_an_error_and_not_a_failure(code):
    assert word(FULL, check("every", "< 1 s", "passed"), code=code) == "error"


def test_a_run_without_a_summary_is_an_error_with_its_message():
    found = result(FULL, code=-9, said="ocs: no reply")
    assert (found.word, found.errors[0].reason) == ("error", "exit code -9: ocs: no reply")


@pytest.mark.parametrize("trials", [[], [trial(valid=False)], [trial(values={})]])
def test_a_run_that_measured_nothing_is_an_error(trials):
    assert word(ONCE, code=3, trials=trials) == "error"


def test_a_run_whose_trials_all_failed_is_not_a_lab_error():
    found = result(ONCE, code=1, trials=[trial(outcome="failed", values={}, reason="wrong")])
    assert (found.word, found.errors) == ("failed", [])


def test_a_run_that_hangs_is_an_error():
    assert word(FULL, code=143, why="too long") == "error"


def test_measured_values_are_reported_with_units():
    (said,) = [c.reason for c in result(FULL, check("every", "< 100 ms", "failed")).failures]
    assert said == "500 ms"
