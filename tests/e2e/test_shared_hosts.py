"""Training whose ranks share hosts: the same bits, over circuits, and after a recovery."""

from __future__ import annotations

import json

from tests.e2e.commandline import SMALL_MODEL, CommandLine

ON_CIRCUITS = """\
experiment: shared
question: Does training end with the same bits where two ranks share each host?
lab: quad
needs: {hosts: 4, fabric: circuit}
jobs: {main: {kind: train, ranks: 4, steps: 20}}
variants:
  apart: {}
  together: {jobs.main.ranks_per_host: 2}
checks: {together.digest: {same_as: apart.digest}}
"""

KILLED = """\
experiment: killed
question: Does a rank go on elsewhere that shared its host with another one?
lab: packet-quad
needs: {hosts: 3, fabric: packet}
jobs: {main: {kind: train, ranks: 4, ranks_per_host: 2, spares: 1}}
faults: [{kind: rank-kill, target: rank 2, at: {step: 5}}]
policy: {kind: splice}
"""


def test_training_over_circuits_that_two_ranks_share_ends_with_the_same_bits(
    testbed: CommandLine,
) -> None:
    summary, run = testbed.run_text(ON_CIRCUITS, "quad", *SMALL_MODEL)
    assert [check["verdict"] for check in summary["checks"]] == ["passed"]
    events = [json.loads(row) for row in (run / "events.jsonl").read_text().splitlines()]
    steps = [event["data"] for event in events if event["kind"] == "step"]
    assert {step["host"] for step in steps if step["rank"] == 3} == {"h1", "h3"}


def test_a_killed_rank_is_replaced_and_the_other_on_its_host_goes_on(testbed: CommandLine) -> None:
    summary, run = testbed.run_text(KILLED, "packet-quad", *SMALL_MODEL)
    assert [trial["recovered"] for trial in summary["trials"]] == [True]
    events = [json.loads(row) for row in (run / "events.jsonl").read_text().splitlines()]
    (members,) = [event["data"]["hosts"] for event in events if event["kind"] == "membership"]
    assert members == ["h0", "h0", "h2", "h1"]
    ended = [event["data"]["rank"] for event in events if event["kind"] == "rank.exit"]
    assert ended[0] == 2
