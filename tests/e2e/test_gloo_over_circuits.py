"""gloo between two servers of a slice: over each circuit a part, and over those of a spare."""

from __future__ import annotations

import json

import pytest

from tests.e2e.commandline import CommandLine

pytest.importorskip("torch", reason="torch.distributed comes with '.[torch]'")

SMALL = [
    "-S",
    "jobs.slice.sizes=[2 KiB, 1 MiB]",
    "-S",
    "jobs.slice.iterations=4",
    "-S",
    "checks={}",
]
REPLACED = """
experiment: spliced
question: Does gloo go on over the circuits of a spare of the rack?
lab: slices
needs: {hosts: 3, fabric: circuit}
jobs:
  main:
    {kind: allreduce, library: gloo, ranks: 2, spares: 1, rings: 2, sizes: [1 MiB], iterations: 80}
faults: [{kind: power-cut, job: main, target: random, at: {step: 20}}]
policy: {kind: splice}
trials: 1
"""


def test_long_sums_take_half_as_long_over_two_circuits(testbed: CommandLine) -> None:
    done = testbed.run("morphlux-gloo", "--lab", "mesh-quad", *SMALL, "--repeat", "1")
    found = done.json()
    assert (found["cleanup"], {trial["valid"] for trial in found["trials"]}) == ("verified", {True})
    one, two = (found["metrics"][f"{arm}.busbw_1mib"] for arm in ("static", "redirected"))
    assert 1.6 <= two["median"] / one["median"] <= 2.1


def test_gloo_goes_on_with_a_spare_over_other_circuits(testbed: CommandLine) -> None:
    summary, run = testbed.run_text(REPLACED, "slices", "-S", "lab.twin.settle=10 ms")
    assert [trial["outcome"] for trial in summary["trials"]] == ["recovered"]
    rows = (run / "events.jsonl").read_text().splitlines()
    samples = [event for event in map(json.loads, rows) if event["kind"] == "sample"]
    assert {sample["data"]["generation"] for sample in samples} == {1, 2}
    assert all(sample["data"]["verified"] for sample in samples)
