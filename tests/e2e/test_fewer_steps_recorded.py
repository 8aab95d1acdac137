"""Training of which only some steps are recorded: all are counted, and the last one is there."""

from __future__ import annotations

import json

from tests.e2e.commandline import CommandLine

EXPERIMENT = """\
experiment: fewer
question: What does a record with a seventh of the steps say?
lab: rack
needs: {hosts: 2, fabric: circuit}
jobs:
  main: {kind: train, ranks: 2, steps: 60, dim: 64, layers: 1, heads: 2, hidden: 128}
record: {steps: every 7}
"""


def test_a_run_records_some_steps_and_counts_all(tmp_path, rack):
    summary, run = CommandLine(tmp_path / "results").run_text(EXPERIMENT, "rack", twin=rack)
    events = [json.loads(row) for row in (run / "events.jsonl").read_text().splitlines()]
    steps = [event["data"] for event in events if event["kind"] == "step" and "trial" in event]
    (counted,) = (event["data"] for event in events if event["kind"] == "steps.counted")
    before = sum(event["kind"] == "step" and "trial" not in event for event in events)
    assert {step["step"] for step in steps} <= {*range(0, 60, 7), 59}
    assert counted["completed"] == 60
    assert counted["reports"] + before == 2 * 60
    assert counted["recorded"] == len(steps) < counted["reports"] / 4
    assert counted["elements"] >= sum(step["elements"] for step in steps) > 0
    skipped = sum(step.get("skipped", 0) for step in steps)
    assert skipped + counted["recorded"] == counted["reports"]
    metrics = summary["metrics"]
    assert metrics["only.steps"]["median"] == 60
    # What a port has still to send when its counter is read, at most half a step, is not in it: of
    # 59 steps that is 0.8 %, more than the headers of frames that TCP hands on by the dozen.
    assert -1 < metrics["only.wire_overhead"]["median"] < 10
    assert {"only.loss", "only.step_time", "only.busbw"} <= metrics.keys()
