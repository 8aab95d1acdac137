"""What ends a job on rails names its culprit: a rank that never asks, a switch that restarts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.commandline import ROOT, CommandLine
from tests.e2e.job_on_rails import experiment_on_rails

EXPERIMENT = experiment_on_rails(
    "faults-on-rails",
    "Who is named when a job on rails cannot go on?",
    iterations=8,
    more="""\
controllers: [{kind: rails, limit: 3 s}]
limits: {trial: 1 min}
""",
)

NEVER_ASKS = """\
faults: [{kind: rank-freeze, target: rank 2, at: {step: 9}}]
trials: 2
"""

RESTART = """\
faults: [{kind: switch-restart, target: rail0, at: {step: 9}, count: 1}]
trials: 2
"""


def run(line: CommandLine, faults: str, code: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run the experiment with some faults on a twin of its own; return summary and events."""
    file = line.results.with_name("experiment.yaml")
    file.parent.mkdir(exist_ok=True)
    file.write_text(EXPERIMENT + faults)
    lab = str(ROOT / "configs" / "rails.yaml")
    where = ["--lab", lab, "--twin", "--seed", "7", "--results", str(line.results), "--json"]
    done = line("run", str(file), *where)
    assert done.code == code, done.err
    rows = (line.results / "latest" / "events.jsonl").read_text().splitlines()
    return done.json(), [json.loads(row) for row in rows]


def ends(events: list[dict[str, Any]]) -> list[str]:
    """Return why each trial ended."""
    return [event["data"]["reason"] for event in events if event["kind"] == "trial.end"]


@pytest.mark.soak
def test_a_rank_that_never_asks_is_named_within_the_limit_and_the_next_trial_begins(
    testbed: CommandLine,
) -> None:
    summary, events = run(testbed, NEVER_ASKS, 1)
    reasons = ends(events)
    assert len(reasons) == 2
    for reason in reasons:
        assert reason.startswith("rails: nothing is heard of rank 2; ranks have waited 3 s for")
    assert summary["cleanup"] == "verified"


def test_a_switch_that_restarts_under_a_job_is_named_and_ends_the_run(
    testbed: CommandLine,
) -> None:
    """Nobody knows whether somebody took the circuits away: no other trial begins."""
    summary, events = run(testbed, RESTART, 5)
    (reason,) = ends(events)
    assert reason.startswith("rail0 has changed since the last command of this run")
    assert "or it restarted" in reason
    assert summary["reason"].startswith("rail0 has changed")
    assert summary["cleanup"] == "verified"
