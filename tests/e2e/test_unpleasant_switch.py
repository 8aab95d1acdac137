"""A recovery through a switch that misbehaves, as its users see it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.commandline import SMALL_MODEL, CommandLine

EXPERIMENT = """
experiment: two-manners
question: Does the job recover through a switch that refuses once, and one that hangs up once?
lab: rack
needs: {hosts: 6}
jobs: {main: {kind: train, ranks: 4, spares: 2, topology: ring, batch: 1}}
faults:
  - {kind: power-cut, target: random, at: {step: 8}}
  - {kind: switch-error, target: ocs, at: {step: 6}, count: 1, command: ADD}
policy: {kind: splice}
variants:
  refuses: {}
  hangs-up: {faults.1.kind: switch-line-reset, faults.1.command: "STAT?"}
checks:
  refuses.recovery_time: {every: "< 20 s"}
  hangs-up.recovery_time: {every: "< 20 s"}
"""


def test_a_job_recovers_although_the_switch_refuses_or_resets_once(
    testbed: CommandLine, rack: str, tmp_path: Path
) -> None:
    path = tmp_path / "two-manners.yaml"
    path.write_text(EXPERIMENT)
    done = testbed.start("run", str(path), "--twin", rack, "--json", *SMALL_MODEL).finish()
    assert done.code == 0, done.err
    assert all(trial["valid"] and trial["recovered"] for trial in done.json()["trials"])
    ends = [event for event in _lines(testbed, "events") if event["kind"] == "far-end.clear"]
    assert [end["data"]["struck"] for end in ends] == [1, 1]
    journal = _lines(testbed, "journal")
    promised = {entry["id"] for entry in journal if entry.get("undo") == "far-end-fault"}
    assert len(promised) == 2
    assert promised <= {entry["done"] for entry in journal if "done" in entry}


def test_switch_faults_are_refused_on_hardware(testbed: CommandLine) -> None:
    done = testbed.start("run", "experiments/unpleasant-switch.yaml").finish()
    assert done.code == 2
    assert "switch-* faults require a twin; run it with --twin" in done.err


def _lines(testbed: CommandLine, name: str) -> list[dict]:
    text = (testbed.results / "latest" / f"{name}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]
