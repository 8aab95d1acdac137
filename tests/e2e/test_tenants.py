"""Several jobs side by side on one switch, on a live twin: each with what is its own."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commandline import CommandLine, small_model
from tests.e2e.running_twin import RunningTwin

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


def events_of(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(row) for row in (directory / "events.jsonl").read_text().splitlines()]


def test_two_jobs_train_side_by_side_to_their_own_ends(testbed: CommandLine, rack: str) -> None:
    small = [*small_model("left"), *small_model("right")]
    summary, directory = testbed.run_text(TWO, "rack", *small, twin=rack)
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


def test_a_recovery_of_one_job_leaves_the_other_and_its_light_alone(
    testbed: CommandLine, rack: str
) -> None:
    twin = RunningTwin(rack)
    before = len(twin.ask(do="light"))
    where = ["--lab", "rack", "--results", str(testbed.results), "--twin", rack]
    small = [*small_model("struck"), *small_model("neighbour")]
    done = testbed("run", "two-tenants", *where, *small, "--repeat", "1", "--json")
    assert done.code in (1, 3), done.err  # one trial gives no interval, a busy machine no times
    checks = {check["name"]: check["verdict"] for check in done.json()["checks"]}
    assert checks.pop("fault.neighbour.mean_step_time ratio_upper") == "unknown"
    assert checks["fault.neighbour.steps equals"] == "passed"
    (struck,) = (t for t in done.json()["trials"] if t["variant"] == "fault.struck")
    assert struck["outcome"] == "recovered"
    events = events_of(testbed.results / "latest")
    changes = [event for event in events if event["kind"] == "fabric.change"]
    of_recovery = [event for event in changes if event["subject"] == "recovery"]
    assert {(event["job"], event["owner"]) for event in of_recovery} == {("struck", "struck")}
    ports = ports_of(testbed.results / "latest", "neighbour")
    seen = defaultdict(list)
    for _, port, what in twin.ask(do="light")[before:]:
        seen[port].append(what)
    assert len(ports) == 4
    # Lit when the run began, and dark when it gave the circuits back: nothing in between.
    for port in ports:
        assert sorted(seen[port]) == ["carrier", "carrier-lost", "dark", "lit"], port
    of_struck = ports_of(testbed.results / "latest", "struck")
    assert any(len(seen[port]) > 4 for port in of_struck)


BOTH_STRUCK = """\
experiment: both-struck
question: Is each of two jobs recovered that are struck in one trial?
needs: {hosts: 6, fabric: circuit}
jobs:
  left: {kind: train, ranks: 2, spares: 1, batch: 1, steps: 200, pace: 20 ms}
  right: {kind: train, ranks: 2, spares: 1, batch: 1, steps: 200, pace: 20 ms}
faults:
  - {kind: power-cut, job: left, target: random, at: {step: 20}}
  - {kind: power-cut, job: right, target: random, at: {after: 20 ms}}
policy: {kind: splice, heartbeat: 500 ms}
"""


@pytest.mark.soak
def test_two_jobs_that_are_struck_in_one_trial_are_recovered_each_on_its_own(
    testbed: CommandLine,
) -> None:
    summary, directory = testbed.run_text(BOTH_STRUCK, "rack")
    trials = {trial["variant"]: trial for trial in summary["trials"]}
    assert trials.keys() == {"only.left", "only.right"}
    for trial in trials.values():
        assert trial["valid"] and trial["recovered"], trial["reason"]
        assert trial["receipt"] and trial["marks"]["t10"] == trial["values"]["recovery_time"]
        assert {f"t{number}" for number in range(11)} <= trial["marks"].keys()
    events = events_of(directory)
    spares = {job: hosts_of(directory, job)[1] for job in ("left", "right")}
    for kind in ("fault.inject", "fault.receipt", "recovery.decided", "fault.undo"):
        assert sorted(e["job"] for e in events if e["kind"] == kind) == ["left", "right"], kind
    for event in events:
        if event["kind"] == "recovery.decided":
            assert [event["data"]["replacement"]] == spares[event["job"]]
            assert event["controller"] == f"splice of {event['job']}"


def hosts_of(directory: Path, job: str) -> tuple[list[str], list[str]]:
    """Return the hosts of the ranks and of the spares that a job begins with."""
    arm = json.loads((directory / "plan.json").read_text())["arms"][0]
    (found,) = (one for one in arm["jobs"] if one["name"] == job)
    return found["hosts"], found["spares"]


def ports_of(directory: Path, job: str) -> set[str]:
    """Return the fabric ports of the hosts that a job begins with."""
    (found,) = (
        one
        for one in json.loads((directory / "plan.json").read_text())["arms"][0]["jobs"]
        if one["name"] == job
    )
    return {f"{host}.{port}" for host in found["hosts"] for port in ("p0", "p1")}


BESIDE_A_PROGRAM = """\
experiment: beside-a-program
question: Does a job go on when the one beside it fails?
needs: {hosts: 3, fabric: circuit}
jobs:
  training: {kind: train, ranks: 2, batch: 1, steps: 30, pace: 100 ms}
  service:
    kind: command
    ranks: 1
    command: [sh, -c, "echo served 7; exit 3"]
    metrics: {served: {pattern: 'served ([0-9]+)', unit: '1', better: higher}}
checks:
  training.steps: {equals: 30}
"""


def test_a_job_that_fails_ends_no_other(testbed: CommandLine, rack: str) -> None:
    file = testbed.results.with_name("beside.yaml")
    file.write_text(BESIDE_A_PROGRAM)
    where = ["--lab", "rack", "--results", str(testbed.results), "--twin", rack, "--json"]
    done = testbed("run", str(file), *small_model("training"), *where)
    summary = done.json()
    trials = {trial["variant"]: trial for trial in summary["trials"]}
    assert trials["only.training"]["outcome"] == "done"
    assert trials["only.training"]["values"]["steps"] == 30
    assert trials["only.service"]["outcome"] == "failed"
    assert "ended with code 3" in trials["only.service"]["reason"]
    assert [check["verdict"] for check in summary["checks"]] == ["passed"]
    assert "job service failed: " in done.err and "the other jobs go on" in done.err
    events = events_of(testbed.results / "latest")
    (failed,) = (event for event in events if event["kind"] == "job.failed")
    assert failed["job"] == failed["subject"] == "service"
    later = [e for e in events if e["kind"] == "step" and e["seq"] > failed["seq"]]
    assert later, "the training went on"
    readings = {e["job"]: e["data"]["value"] for e in events if e["kind"] == "reading"}
    assert readings == {"service": 7}


SHARED = """\
experiment: shared
question: Do two jobs run on the same hosts?
needs: {hosts: 2, fabric: packet}
jobs:
  left: {kind: train, ranks: 2, batch: 1, steps: 8, pace: 20 ms, hosts: [h0, h1]}
  right:
    {kind: allreduce, ranks: 2, sizes: [64 KiB], hosts: [h0, h1], shares_hosts_with: [left]}
checks:
  left.steps: {equals: 8}
  right.busbw_64kib: {min: "> 0 bit/s"}
"""


def test_two_jobs_share_their_hosts_and_ports(testbed: CommandLine) -> None:
    summary, directory = testbed.run_text(SHARED, "packet-rack", *small_model("left"))
    assert summary["outcome"] == "passed"
    events = events_of(directory)
    for job, kind in (("left", "step"), ("right", "sample")):
        done = [event for event in events if event["kind"] == kind]
        assert done and {event["job"] for event in done} == {job}
        assert {event["data"]["host"] for event in done} == {"h0", "h1"}
    left, right = (
        [event for event in events if event["kind"] == "link.probe" and event["job"] == job]
        for job in ("left", "right")
    )
    probed = max(event["t"] for event in left)
    begun = min(event["t"] - event["data"]["long_seconds"] for event in right)
    assert probed <= begun, "a port has its whole rate for the probe of each job"
