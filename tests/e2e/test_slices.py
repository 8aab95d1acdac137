"""Slices of a rack with a mesh a server: circuits pass several switches on a live twin."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.e2e.commandline import CommandLine, small_model

SMALL = [
    *(*small_model("struck"), *small_model("neighbour"), "-S", "lab.twin.settle=10 ms"),
    *(part for job in ("struck", "neighbour") for part in ("-S", f"jobs.{job}.pace=20 ms")),
]
APART = "{jobs.struck.hosts: [h0, h2, h1], jobs.neighbour.hosts: [h3, h5]}"
RING_OF_THREE = """
experiment: allreduce
question: Are sums right whose ring is closed past the switch of the server between?
lab: slices
needs: {hosts: 6, fabric: circuit}
jobs:
  ring: {kind: allreduce, ranks: 3, sizes: [64 KiB], iterations: 3, warmup: 0}
  apart: {kind: allreduce, ranks: 2, hosts: [h3, h5], rings: 2, sizes: [64 KiB], iterations: 3}
trials: 1
"""


def events_of(run: Path) -> list[dict]:
    return [json.loads(row) for row in (run / "events.jsonl").read_text().splitlines()]


def settings_of(run: Path, mesh: str) -> int:
    """Return how often all cells of a mesh were set."""
    rows = (run / "wire" / f"{mesh}.jsonl").read_text().splitlines()
    return sum(json.loads(row)["direction"] == "send" for row in rows)


def replaced(testbed: CommandLine, variants: str) -> tuple[Path, list[str]]:
    """Run arms with a failure, check what was changed for it, and return the run and the spares."""
    arms = ["-S", f"variants={variants}", "-S", "checks={}"]
    done = testbed.run("morphlux-slices", "--lab", "slices", *SMALL, *arms, "--repeat", "1")
    assert done.code == 0, done.err
    trials = {trial["variant"]: trial for trial in done.json()["trials"]}
    for name, trial in trials.items():
        if name.endswith("struck"):
            assert trial["outcome"] == "recovered", trial
        else:
            assert trial["values"]["steps"] == 24
    run = testbed.results / "latest"
    events = events_of(run)
    for change in (event for event in events if event["subject"] == "recovery"):
        touched = {row.partition(".")[0] for row in change["data"]["added"]}
        assert (change["owner"], change["data"]["disturbed"]) == ("struck", [])
        assert touched
        assert touched <= {"mesh0", "mesh1", "mesh2", "mesh5"}
    assert all(event["data"]["verified"] for event in events if event["kind"] == "step")
    decisions = [event for event in events if event["kind"] == "recovery.decided"]
    return run, [event["data"]["replacement"] for event in decisions]


def test_a_server_is_replaced_and_meshes_that_only_another_slice_passes_are_told_nothing(
    testbed: CommandLine,
) -> None:
    """Theirs are set when the slice begins, and once more when all is undone."""
    run, spares = replaced(testbed, "{fault: {}}")
    assert spares == ["h5"]
    assert [settings_of(run, f"mesh{n}") for n in (2, 3)] == [2, 2]
    assert [settings_of(run, f"mesh{n}") for n in (0, 4, 5)] == [3, 0, 2]


@pytest.mark.soak
def test_a_server_is_replaced_in_a_slice_whose_servers_are_not_neighbours(
    testbed: CommandLine,
) -> None:
    _, spares = replaced(testbed, f"{{apart: {APART}}}")
    assert spares == ["h1"]


def test_sums_over_circuits_that_pass_several_switches_are_right(testbed: CommandLine) -> None:
    summary, run = testbed.run_text(RING_OF_THREE, "slices")
    assert (summary["outcome"], summary["cleanup"]) == ("passed", "verified")
    events = events_of(run)
    samples = [event for event in events if event["kind"] == "sample"]
    assert {event["job"] for event in samples} == {"ring", "apart"}
    assert all(event["data"]["verified"] for event in samples)
    good = {event["subject"] for event in events if event["kind"] == "link.good"}
    assert "h0.p0–f01a–f12a–h2.p1" in good


@pytest.mark.soak
def test_a_killed_run_on_a_rack_is_taken_back_on_every_switch(testbed: CommandLine) -> None:
    name = f"slices-{os.getpid()}"
    assert testbed("twin", "up", "slices", "--name", name).code == 0
    try:
        run = testbed.start("run", "morphlux-slices", "--twin", name, "--repeat", "1", *SMALL)
        run.await_event(lambda event: event["kind"] == "step" and event["data"]["step"] == 3)
        run.signal(signal.SIGKILL)
        run.finish()
        where = ["--twin", name, "--results", str(testbed.results)]
        done = testbed("recover", *where)
        assert done.code == 0, done.err
        switches = ", ".join(f"mesh{n}" for n in range(6))
        assert f"circuits of {switches}" in done.out
        again = testbed.run("morphlux-slices", *SMALL, "--repeat", "1", twin=name)
        assert again.json()["cleanup"] == "verified"
    finally:
        testbed("twin", "down", name)
