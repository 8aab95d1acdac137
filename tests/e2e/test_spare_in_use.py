"""A spare on a host that runs another rank: on a packet switch a killed rank goes on there."""

from __future__ import annotations

import json

from tests.e2e.commandline import SMALL_MODEL, CommandLine

EXPERIMENT = """\
experiment: in-use
question: Does a rank that was killed go on in a free slot of a host in use?
lab: packet-quad
needs: {hosts: 4, fabric: packet}
jobs:
  main: {kind: train, ranks: 4, spares: 1, hosts: [h0, h1, h2, h3, h2]}
faults: [{kind: rank-kill, target: rank 1, at: {step: 5}}]
policy: {kind: splice}
trials: 2
"""


def test_a_killed_rank_goes_on_beside_another_one(testbed: CommandLine) -> None:
    summary, run = testbed.run_text(EXPERIMENT, "packet-quad", *SMALL_MODEL)
    assert summary["cleanup"] == "verified"
    assert [trial["recovered"] for trial in summary["trials"]] == [True, True]
    events = [json.loads(row) for row in (run / "events.jsonl").read_text().splitlines()]
    assert [event["data"]["hosts"] for event in events if event["kind"] == "membership"] == [
        ["h0", "h2", "h2", "h3"],
        ["h0", "h1", "h2", "h3"],
    ]
    steps = [event["data"] for event in events if event["kind"] == "step"]
    assert all(step["verified"] for step in steps)
    # A report that arrives after its process has left the job is of no rank.
    beside = {step["rank"] for step in steps if step["host"] == "h2" and step["rank"] is not None}
    assert beside == {1, 2}
    assert not [event for event in events if event["kind"] == "fabric.change"]
