"""A host of a job on rails that dies: a spare takes its ranks, and the rails follow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.analysis.plan_deviations import deviations
from testbed.analysis.rail_monitor import monitor
from testbed.record.log import read_events
from tests.e2e.commandline import ROOT, CommandLine

pytestmark = pytest.mark.soak

EXPERIMENT = """\
experiment: replaced-on-rails
question: Does training on rails go on with the same bits on a spare host?
lab: rails
needs: {hosts: 5, fabric: circuit}
jobs:
  main:
    kind: hybrid
    ranks: 8
    ranks_per_host: 2
    spares: 1
    mesh: {dp: 2, pp: 2, tp: 2}
    steps: 12
    dim: 32
controllers: [{kind: rails}, {kind: replace, heartbeat: 2 s}]
faults: [{kind: power-cut, target: rank 2, at: {step: 4}}]
variants:
  undisturbed: {faults: []}
  cut: {}
limits: {trial: 2 min}
trials: 1
checks:
  cut.digest: {same_as: undisturbed.digest}
"""

WITHOUT_SPARE = """\
experiment: no-spare-on-rails
question: How does a job on rails end for which no spare is left?
lab: rails
needs: {hosts: 4, fabric: circuit}
jobs:
  main: {kind: hybrid, ranks: 8, ranks_per_host: 2, mesh: {dp: 2, pp: 2, tp: 2}, steps: 12, dim: 32}
controllers: [{kind: rails}, {kind: replace, heartbeat: 2 s}]
faults: [{kind: power-cut, target: rank 2, at: {step: 4}}]
limits: {trial: 2 min}
trials: 2
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory):
    line = CommandLine(tmp_path_factory.mktemp("replaced") / "results")
    summary, run = line.run_text(EXPERIMENT, "rails")
    log = (run / "events.jsonl").read_text()
    return summary, run, [json.loads(row) for row in log.splitlines()]


def of_kind(events: list[dict], kind: str) -> list[dict]:
    return [event for event in events if event["kind"] == kind]


def test_training_ends_with_the_bits_of_a_run_in_which_nothing_dies(finished) -> None:
    summary, _, events = finished
    (trial,) = (one for one in summary["trials"] if one["variant"] == "cut")
    assert trial["response"] == "recovered"
    assert [check["verdict"] for check in summary["checks"]] == ["passed"]
    (membership,) = of_kind(events, "membership")
    assert membership["data"]["hosts"] == ["h0", "h0", "h4", "h4", "h2", "h2", "h3", "h3"]
    restored = [one["data"] for one in of_kind(events, "state.restored")]
    sent = {one["rank"] for one in restored if one["generation"] == 2 and one["bytes"]}
    assert sent == {2, 3}, "only the newcomers got a state"


def test_the_rails_lead_to_the_spare_and_no_circuit_went_under_traffic(finished) -> None:
    summary, run, events = finished
    assert summary["cleanup"] == "verified"
    (decided,) = of_kind(events, "recovery.decided")
    after = [e for e in of_kind(events, "fabric.change") if e["seq"] > decided["seq"]]
    lit = {circuit for change in after for circuit in change["data"]["circuits"]}
    for port in ("p0", "p1"):
        for beside in ("h3", "h0"):  # its replica, and the stage before it in the pipeline
            assert f"{beside}.{port}–h4.{port}" in lit
    assert monitor(read_events(run / "events.jsonl")).found == ()


def test_the_plan_says_who_is_replaced_and_how_it_is_fenced(finished) -> None:
    _, run, _ = finished
    plan = json.loads((run / "plan.json").read_text())
    (recovery,) = (r for s in plan["steps"] if s["do"] == "RunTrial" for r in s["recoveries"])
    assert recovery["decisions"] == [{"victim": "h1", "replacement": "h4"}]
    assert [fence["host"] for fence in recovery["fences"]] == ["h1"]
    assert recovery["hosts"] == ["h0", "h0", "h4", "h4", "h2", "h2", "h3", "h3"]
    found = deviations(plan, read_events(run / "events.jsonl"))
    assert [str(one) for one in found if not one.cause] == []


def fails(line: CommandLine, experiment: str) -> tuple[dict, Path]:
    """Run an experiment that must fail on a twin of rails; return its summary and directory."""
    file = line.results.with_name("experiment.yaml")
    file.parent.mkdir(exist_ok=True)
    file.write_text(experiment)
    lab = str(ROOT / "configs" / "rails.yaml")
    done = line("run", str(file), "--lab", lab, "--twin", "--results", str(line.results), "--json")
    assert done.code == 1, done.err
    return done.json(), line.results / "latest"


def test_without_a_spare_each_trial_ends_by_name_and_the_next_begins(testbed) -> None:
    summary, run = fails(testbed, WITHOUT_SPARE)
    ends = [json.loads(row) for row in (run / "events.jsonl").read_text().splitlines()]
    reasons = [event["data"]["reason"] for event in ends if event["kind"] == "trial.end"]
    assert len(reasons) == 2
    assert all("h1" in reason and "no spare host is left" in reason for reason in reasons)
    assert summary["cleanup"] == "verified"
