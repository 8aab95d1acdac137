"""A job whose circuits follow a table of time slots while it goes on, on a live twin."""

from __future__ import annotations

import json

from tests.e2e.commandline import CommandLine

RING = {"h0.p1–h1.p0", "h1.p1–h2.p0", "h2.p1–h3.p0", "h0.p0–h3.p1"}
PAIRS = {"h0.p0–h1.p0", "h2.p0–h3.p0"}


def test_circuits_rotate_while_a_job_runs_to_the_same_bits(testbed: CommandLine) -> None:
    done = testbed.run("rotate", "--repeat", "1")
    assert done.code == 0, done.err
    assert done.json()["outcome"] == "passed"
    log = (testbed.results / "latest" / "events.jsonl").read_text()
    events = [json.loads(row) for row in log.splitlines()]
    lit = [
        set(event["data"]["circuits"])
        for event in events
        if event["kind"] == "fabric.change" and event["subject"] == "rotate"
    ]
    assert len(lit) >= 4
    assert lit == [PAIRS, RING] * (len(lit) // 2) + [PAIRS] * (len(lit) % 2)
    steps = [event["data"] for event in events if event["kind"] == "step"]
    assert len(steps) == 2 * 30 * 4
    assert all(step["verified"] for step in steps)
