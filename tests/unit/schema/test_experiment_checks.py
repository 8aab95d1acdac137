"""The checks that an experiment file states, one by one."""

from pathlib import Path

from testbed.schema import load_experiment

EXPERIMENTS = Path(__file__).parents[3] / "experiments"


def test_each_condition_of_a_metric_is_one_check():
    checks = list(load_experiment(EXPERIMENTS / "resume.yaml", []).all_checks())
    assert [(check.arm, check.metric, check.statistic) for check in checks] == [
        ("interrupted", "digest", "same_as"),
        ("interrupted", "steps", "equals"),
    ]
