"""Paced training on a machine whose processors are all taken by something else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.commandline import ROOT, CommandLine

EXPERIMENT = """\
experiment: paced
question: Does a trial say that its processors were busy?
lab: rack
needs: {hosts: 2, fabric: circuit}
jobs:
  main: {kind: train, ranks: 2, steps: 30, dim: 64, layers: 1, heads: 2, hidden: 128}
variants:
  paced: {jobs.main.pace: 50 ms}
  free: {}
"""


def test_a_paced_trial_says_that_the_processors_were_busy_and_another_does_not(
    testbed: CommandLine, rack: str, tmp_path: Path
) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(EXPERIMENT)
    lab = str(ROOT / "configs" / "rack.yaml")
    spin = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spin) for _ in range(os.cpu_count() or 1)]
    try:
        run = testbed.start("run", str(file), "--lab", lab, "--twin", rack)
        run.await_event(lambda event: event["kind"] == "load" and event["trial"] == 1)
    finally:
        for one in others:
            one.kill()
            one.wait()
    assert run.finish().code == 0
    events = run.events()
    arms = {e["trial"]: e["subject"] for e in events if e["kind"] == "trial.begin"}
    loads = [event for event in events if event["kind"] == "load"]
    assert len(loads) == 2 and all(load["data"]["busiest"] > 0.7 for load in loads)
    said = [e for e in events if e["kind"] == "health" and "so paced jobs" in e["data"]["text"]]
    assert [arms[event["trial"]] for event in said] == ["paced"]
    number = said[0]["trial"] + 1
    assert said[0]["data"]["text"].startswith(f"in a second of trial {number} its processors were")
