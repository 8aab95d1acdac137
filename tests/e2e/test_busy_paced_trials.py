"""Paced training on a machine whose processors are all taken by something else."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.e2e.commandline import CommandLine

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


def test_a_paced_trial_says_that_the_processors_were_busy_and_another_does_not(tmp_path, rack):
    spin = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spin) for _ in range(os.cpu_count() or 1)]
    try:
        _, run = CommandLine(tmp_path / "results").run_text(EXPERIMENT, "rack", twin=rack)
    finally:
        for one in others:
            one.kill()
            one.wait()
    events = [json.loads(row) for row in (run / "events.jsonl").read_text().splitlines()]
    arms = {e["trial"]: e["subject"] for e in events if e["kind"] == "trial.begin"}
    loads = [event for event in events if event["kind"] == "load"]
    assert len(loads) == 2 and all(load["data"]["busiest"] > 0.7 for load in loads)
    said = [e for e in events if e["kind"] == "health" and "so paced jobs" in e["data"]["text"]]
    assert [arms[event["trial"]] for event in said] == ["paced"]
    number = said[0]["trial"] + 1
    assert said[0]["data"]["text"].startswith(f"in a second of trial {number} its processors were")
