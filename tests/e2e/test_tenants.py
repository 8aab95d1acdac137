"""Several jobs side by side on one switch, on a live twin: each with what is its own."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.commandline import CommandLine

TWO = """\
experiment: two
question: Do two jobs run side by side, each to its own end?
needs: {hosts: 5, fabric: circuit}
jobs:
  left: {kind: train, ranks: 3, batch: 1, steps: 12, pace: 20 ms}
  right: {kind: train, ranks: 2, batch: 1, steps: 8, pace: 20 ms}
trials: 2
checks:
  left.steps: {equals: 12}
  right.steps: {equals: 8}
"""


def events_of(directory: Path) -> list[dict[str, object]]:
    return [json.loads(row) for row in (directory / "events.jsonl").read_text().splitlines()]


def test_two_jobs_train_side_by_side_to_their_own_ends(testbed: CommandLine) -> None:
    summary, directory = testbed.run_text(TWO, "rack")
    assert summary["outcome"] == "passed"
    assert {trial["variant"] for trial in summary["trials"]} == {"only.left", "only.right"}
    events = events_of(directory)
    for job, ranks, steps in (("left", 3, 12), ("right", 2, 8)):
        mine = [event for event in events if event.get("job") == job]
        done = [event["data"] for event in mine if event["kind"] == "step"]
        assert len(done) == 2 * ranks * steps
        assert all(step["verified"] for step in done)
        assert {step["rank"] for step in done} == set(range(ranks))
        assert len([event for event in mine if event["kind"] == "job.done"]) == 2 * ranks
    owners = {event.get("owner") for event in events if event["kind"] == "fabric.change"}
    assert owners == {"left", "right"}
    of_ranks = ("step", "job.done", "rank.ready", "generation", "link.probe")
    assert all(event.get("job") for event in events if event["kind"] in of_ranks)
