"""The workflow files parse and call what is there, and shipped experiments have enough trials."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from testbed.schema import load_experiment

ROOT = Path(__file__).parents[2]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
OF_VALUES = {"equals", "same_as"}


def check_calls(commands: list[str]) -> None:
    called = [word for line in commands for word in re.findall(r"\bmake ([\w-]+)", line)]
    assert "nightly" in called and set(called) <= TARGETS


def test_the_workflow_for_github_runs_the_nightly_every_night() -> None:
    found = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text())
    assert found[True]["schedule"][0]["cron"]  # YAML 1.1 reads the key `on` as true
    check_calls([step.get("run", "") for step in found["jobs"]["nightly"]["steps"]])


def test_the_workflow_for_gitlab_runs_the_nightly_and_publishes_its_junit_report() -> None:
    job = yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())["nightly"]
    check_calls([*job["before_script"], *job["script"]])
    assert job["artifacts"]["reports"]["junit"] == "results/nightly/junit.xml"


def test_shipped_experiments_with_numeric_checks_have_six_trials_or_state_n_1() -> None:
    for path in sorted((ROOT / "experiments").glob("*.yaml")):
        experiment = load_experiment(path)
        judged = {check.statistic for check in experiment.all_checks()} - OF_VALUES
        is_model = experiment.needs.hosts == 0
        assert not judged or is_model or experiment.trials >= 6 or "n = 1" in path.read_text(), path
