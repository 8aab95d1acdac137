"""Checks on the interval of a ratio, with planted values on both sides of the limit."""

import pytest

from testbed.analysis.checks import evaluate
from testbed.schema import Check, Condition
from tests.unit.analysis.test_checks import trial

OVER = "control.neighbour.mean_step_time"


def held(values, under, limit="<= 1.05", statistic="ratio_upper", lost=0):
    """Evaluate the check of two-tenants.yaml on values of both arms; some trials may be lost."""
    arms = {"fault.neighbour": values, "control.neighbour": under}
    trials = [trial(arm=arm, mean_step_time=one) for arm, of in arms.items() for one in of]
    trials += [trial(arm="fault.neighbour", recovered=False)] * lost
    condition = Condition.parse(limit)
    check = Check("fault.neighbour", "mean_step_time", statistic, condition, OVER)
    return evaluate(check, trials, {})


@pytest.mark.parametrize(
    ("slower", "limit", "statistic", "verdict"),
    [
        (1.0, "<= 1.05", "ratio_upper", "passed"),
        (1.0, "<= 105 %", "ratio_upper", "passed"),
        (1.1, "<= 1.05", "ratio_upper", "failed"),
        (1.1, ">= 1.05", "ratio_lower", "passed"),
        (1.0, ">= 1.05", "ratio_lower", "failed"),
    ],
)
def test_the_end_of_the_interval_decides(slower, limit, statistic, verdict):
    under = [0.2 + 0.0005 * number for number in range(10)]
    found = held([slower * one for one in under], under, limit, statistic)
    assert found.verdict == verdict
    assert found.value == pytest.approx(slower, abs=0.03)
    assert f"ratio {slower:.3f} [" in found.reason and "n = 10 + 10" in found.reason


def test_values_that_scatter_too_far_do_not_pass_although_their_medians_are_alike():
    under = [0.2] * 10
    assert held([0.15, 0.25] * 5, under).verdict == "failed"


def test_fewer_than_six_trials_of_an_arm_show_no_interval():
    found = held([0.2] * 5, [0.2] * 10)
    assert (found.verdict, found.value) == ("unknown", None)
    assert "n = 5 + 10" in found.reason


def test_trials_whose_job_failed_count_as_the_worst():
    assert held([0.2] * 10, [0.2] * 10, lost=0).verdict == "passed"
    assert held([0.2] * 6, [0.2] * 10, lost=6).verdict == "failed"
