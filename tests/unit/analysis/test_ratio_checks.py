"""Checks on the interval of a ratio, with planted values on both sides of the limit."""

import pytest

from testbed.analysis.checks import evaluate
from testbed.analysis.metric_definitions import MetricDefinition
from testbed.schema import Check, Condition, load_experiment
from testbed.schema.validation import SchemaError
from tests.unit.analysis.test_checks import trial

OVER = "control.neighbour.mean_step_time"


def held(values, under, limit="<= 1.05", statistic="ratio_upper", lost=0):
    """Evaluate the check of two-tenants.yaml on values of both arms; some trials may be lost."""
    arms = {"fault.neighbour": values, "control.neighbour": under}
    trials = [trial(arm=arm, mean_step_time=one) for arm, of in arms.items() for one in of]
    trials += [trial(arm="fault.neighbour", recovered=False)] * lost
    condition = Condition.parse(limit)
    check = Check("fault.neighbour", "mean_step_time", statistic, condition, (OVER,))
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


@pytest.mark.parametrize("better", ["one", "other"])
@pytest.mark.parametrize(("metric", "sign"), [("iteration_time", 1), ("busbw", -1)])
def test_of_several_the_best_one_is_what_it_is_held_against(better, metric, sign):
    values = {"mine": 0.21, "one": 0.3, "other": 0.3} | {better: 0.3 - 0.1 * sign}
    trials = [trial(arm=arm, **{metric: one}) for arm, one in values.items() for _ in range(6)]
    over = (f"one.{metric}", f"other.{metric}")
    check = Check("mine", metric, "ratio_upper", Condition.parse("<= 1.1"), over)
    found = evaluate(check, trials, {})
    assert found.value == pytest.approx(0.21 / values[better])
    assert f"over {better}.{metric}, n = 6 + 6" in found.reason


@pytest.mark.parametrize(("better", "verdict"), [("higher", "passed"), ("lower", "failed")])
def test_the_ratio_of_a_metric_that_a_job_defines_is_evaluated(better, verdict):
    """Of the arms that it is divided by, the better one counts: 1.2 of 100, or 6.0 of 20."""
    values = {"mine": 120.0, "one": 100.0, "other": 20.0}
    trials = [trial(arm=arm, bind_rate=one) for arm, one in values.items() for _ in range(6)]
    over = ("one.bind_rate", "other.bind_rate")
    check = Check("mine", "bind_rate", "ratio_upper", Condition.parse("<= 1.5"), over)
    own = {"bind_rate": MetricDefinition("1/s", better, "binds")}
    assert evaluate(check, trials, {}, own=own).verdict == verdict


def test_of_several_each_needs_trials_enough():
    trials = [trial(arm=arm, iteration_time=0.2) for arm in ("mine", "one") for _ in range(6)]
    over = ("one.iteration_time", "other.iteration_time")
    check = Check("mine", "iteration_time", "ratio_upper", Condition.parse("<= 1.1"), over)
    assert evaluate(check, trials, {}).verdict == "unknown"


def test_a_file_names_one_metric_or_several(tmp_path):
    text = """\
experiment: modes
question: Is learned as quick as the better of the others?
needs: {hosts: 4, fabric: circuit}
jobs: {main: {kind: train, ranks: 4}}
variants: {a: {}, b: {}, c: {}}
checks: {c.step_time: {ratio: {over: OVER, upper: "<= 1.1"}}}
"""
    for over, names in (("b.step_time", ["b"]), ("[a.step_time, b.step_time]", ["a", "b"])):
        (tmp_path / "e.yaml").write_text(text.replace("OVER", over))
        (check,) = load_experiment(tmp_path / "e.yaml").all_checks()
        assert check.over == tuple(f"{name}.step_time" for name in names)
    for over, words in (
        ("[]", "expected an arm and its metric, or a list of them"),
        ("[a.step_time, d.step_time]", "'d' is not an arm of this experiment"),
        ("[a.step_time, 3]", "expected an arm and its metric, or a list of them"),
    ):
        (tmp_path / "e.yaml").write_text(text.replace("OVER", over))
        with pytest.raises(SchemaError, match=words):
            load_experiment(tmp_path / "e.yaml")
