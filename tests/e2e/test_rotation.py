"""A job whose circuits follow a table of time slots while it goes on, on a live twin."""

from __future__ import annotations

import json

import pytest

from tests.e2e.commandline import SMALL_MODEL, CommandLine

RING = {"h0.p1–h1.p0", "h1.p1–h2.p0", "h2.p1–h3.p0", "h0.p0–h3.p1"}
PAIRS = {"h0.p0–h1.p0", "h2.p0–h3.p0"}


def test_circuits_rotate_while_a_job_runs_to_the_same_bits(testbed: CommandLine) -> None:
    # Of steps that are short and paced, so that their thirty last for several rotations.
    done = testbed.run("rotate", *SMALL_MODEL, "-S", "jobs.main.pace=60 ms", "--repeat", "1")
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


ROTATING = """
experiment: soak
question: Is every value of every AllReduce right while its circuits change?
lab: quad
needs: {hosts: 4, fabric: circuit}
jobs:
  main: {kind: allreduce, ranks: 4, sizes: [64 KiB], iterations: 1600, warmup: 1, pace: 100 ms}
controllers:
  - kind: rotate
    slots: [{topology: ring, hold: 300 ms}, {topology: pairs, hold: 60 ms}]
trials: 1
limits: {trial: 50 min, run: 55 min}
"""


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_value_is_right_through_a_thousand_changes_of_circuits(
    testbed: CommandLine,
) -> None:
    """The job `allreduce` compares each element of each sum with what it must be."""
    summary, run = testbed.run_text(ROTATING, "quad", limit=3500)
    events = [json.loads(row) for row in (run / "events.jsonl").read_text().splitlines()]
    changes = [
        event
        for event in events
        if event["kind"] == "fabric.change" and event["subject"] == "rotate"
    ]
    assert len(changes) >= 1000
    samples = [event["data"] for event in events if event["kind"] == "sample"]
    assert len(samples) == 1600 * 4
    assert all(sample["verified"] for sample in samples)
    assert summary["outcome"] == "passed" and summary["cleanup"] == "verified"


MATCHINGS = [
    {"h0.p0–h3.p0", "h1.p0–h2.p0"},
    {"h0.p0–h2.p0", "h1.p0–h3.p0"},
    {"h0.p0–h1.p0", "h2.p0–h3.p0"},
]


@pytest.mark.soak
def test_an_all_to_all_goes_over_all_matchings_in_their_time_slots(testbed: CommandLine) -> None:
    done = testbed.run("rotor", "--repeat", "1")
    assert done.code in (0, 1), done.err  # a busy machine carries less than the lines would
    events = [
        json.loads(row)
        for row in (testbed.results / "latest" / "events.jsonl").read_text().splitlines()
    ]
    lit = [
        set(event["data"]["circuits"])
        for event in events
        if event["kind"] == "fabric.change" and event["subject"] == "rotate"
    ]
    assert len(lit) > 6
    assert all(one in MATCHINGS for one in lit)
    samples = [event["data"] for event in events if event["kind"] == "sample"]
    assert len(samples) == 2 * 4
    assert all(sample["verified"] and sample["bytes"] == 3 * 12 * 2**20 for sample in samples)
    for sample in samples:  # what came from each peer came in the slots of that matching
        came = dict.fromkeys((1, 2, 3), 0)
        for circuits, _, received, _ in sample["slots"]:
            came[circuits] += received
        assert set(came.values()) == {12 * 2**20}
    (prediction,) = (event["data"] for event in events if event["kind"] == "prediction")
    assert prediction["values"].keys() == {"cycle_time", "slot_bytes", "slot_dark"}
