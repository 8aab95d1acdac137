"""Training that leaves the choice of its collective to us, with a rank that is late on purpose."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from tests.e2e.commandline import CommandLine

EXPERIMENT = """\
experiment: chosen
question: Which collective does training with a late rank come to?
lab: packet-rack
needs: {hosts: 8, fabric: packet}
jobs:
  main:
    kind: train
    ranks: 8
    steps: 26
    collective: auto
    dim: 128
    layers: 1
    heads: 2
    hidden: 256
    sequence: 8
    batch: 1
faults: [{kind: straggler, target: rank 5, at: {step: 1}, delay: 250 ms}]
variants: {auto: {}}
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, list[dict]]:
    line = CommandLine(tmp_path_factory.mktemp("chosen") / "results")
    summary, run = line.run_text(EXPERIMENT, "packet-rack", "--seed", "7")
    log = (run / "events.jsonl").read_text()
    return summary, [json.loads(row) for row in log.splitlines()]


def test_the_straggler_is_identified_and_a_collective_that_expects_it_is_chosen(
    finished: tuple[dict, list[dict]],
) -> None:
    _, events = finished
    chosen = [event for event in events if event["kind"] == "collective.chosen"][-1]
    assert (chosen["subject"], chosen["data"]["straggler"]) == ("stragglar", 5)
    expected = chosen["data"]["expected"]
    assert expected["stragglar"] == min(expected.values())


def test_all_ranks_change_the_collective_after_the_same_step_with_equal_parameters(
    finished: tuple[dict, list[dict]],
) -> None:
    _, events = finished
    by_step = defaultdict(list)
    for event in events:
        if event["kind"] == "step":
            by_step[event["data"]["step"]].append(event["data"])
    assert sorted(by_step) == list(range(26))
    names = []
    for _, said in sorted(by_step.items()):
        assert len(said) == 8 and all(one["verified"] for one in said)
        assert len({(one["algorithm"], one["digest"]) for one in said}) == 1
        names.append(said[0]["algorithm"])
    assert names[0] == "ring" and names[-1] == "stragglar"


def test_predicted_and_measured_gains_of_the_choice_are_reported(
    finished: tuple[dict, list[dict]],
) -> None:
    summary, _ = finished
    (trial,) = summary["trials"]
    assert trial["valid"] and trial["recovered"] is None
    for name in ("step_gain", "collective_gain", "communication_share", "straggling_step_time"):
        metric = summary["metrics"][f"auto.{name}"]
        assert metric["n"] == 1 and metric["predicted"] > 0
