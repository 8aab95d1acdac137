"""All six systems at once on one rack twin, and pairs of them that are in no other test."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commandline import COMMAND, ROOT, SMALL_RING, CommandLine

pytestmark = pytest.mark.soak

TENANTS = ("struck", "slice", "rails", "stragglar", "matchings")


def events_of(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(row) for row in (directory / "events.jsonl").read_text().splitlines()]


@pytest.fixture
def twin() -> Iterator[str]:
    """A twin of the rack of everything."""
    subprocess.run([*COMMAND, "twin", "up", "everything", "--name", "all"], cwd=ROOT, check=True)
    yield "all"
    subprocess.run([*COMMAND, "twin", "down", "all"], cwd=ROOT, check=True)


def test_all_six_systems_run_on_one_rack_while_a_host_of_one_dies_and_is_replaced(
    testbed: CommandLine, twin: str
) -> None:
    """It is admitted behind one that needs some of its hosts, and so is another behind it."""
    words = ["--twin", twin, "--repeat", "1", "--seed", "7", "--queue"]
    before = CommandLine(testbed.results.with_name("before"), testbed.running)
    tenant = before.start("run", "experiments/everything-tenant.yaml", *words, "-S", "checks={}")
    tenant.await_event(lambda event: event["kind"] == "lease.taken")
    first = testbed.start("run", "experiments/everything.yaml", *words, "--json")
    taken = first.await_event(lambda event: event["kind"] == "lease.taken")
    assert taken["data"]["policy"] == "irs"
    done = tenant.finish(60.0)
    assert done.code == 0, done.err
    assert tenant.summary()["admission"]["behind"] == ""
    other = CommandLine(testbed.results.with_name("other"), testbed.running)
    second = other.start("run", "experiments/lumion.yaml", *SMALL_RING, *words)
    waits = second.await_event(lambda event: event["kind"] == "lease.wait")
    assert waits["data"]["holder"].startswith("1 of 1 in the queue; ")

    done = first.finish(300.0)
    assert done.code in (0, 1, 3), done.err  # one trial gives no interval, a busy machine no times
    summary = done.json()
    assert summary["cleanup"] == "verified"
    let_in = summary["admission"]
    assert "mesh: held by " in let_in["behind"] and "everything-tenant" in let_in["behind"]
    assert 1.0 < let_in["waited"] < let_in["expected"], "what may take 5 minutes took less"
    trials = {trial["variant"]: trial for trial in summary["trials"]}
    assert trials.keys() == {f"{arm}.{job}" for arm in ("fault", "control") for job in TENANTS}
    assert all(trial["valid"] for trial in trials.values()), done.err
    struck = trials.pop("fault.struck")
    assert struck["outcome"] == "recovered"
    assert {trial["outcome"] for trial in trials.values()} == {"done"}
    for name, trial in trials.items():
        assert trial["values"]["mean_step_time"] > 0, name
    events = events_of(testbed.results / "latest")
    said = [e["data"] for e in events if e["kind"] == "prediction" and e.get("job") == "struck"]
    (terms,) = (data for data in said if "settle" in data)
    assert terms["step"] > 0.2, "it was predicted when its pace was known"
    changes = [event for event in events if event["kind"] == "fabric.change"]
    of_recovery = [event for event in changes if event["subject"] == "recovery"]
    assert {(event["job"], event["owner"]) for event in of_recovery} == {("struck", "struck")}
    assert all(event["data"].get("disturbed", []) == [] for event in changes)
    for event in events:
        if event["kind"] in ("step", "sample"):
            assert event["data"]["verified"], event

    done = second.finish(120.0)
    assert done.code in (0, 1, 3), done.err
    assert second.summary()["cleanup"] == "verified"
    assert "everything" in second.summary()["admission"]["behind"]


def test_rails_are_re_pointed_through_a_photonic_mesh(testbed: CommandLine) -> None:
    """Opus' rails on the switch of PipSwitch and Morphlux, which routes all circuits anew."""
    done = testbed.run("rails", "--lab", "mesh-quad", "--repeat", "1", "--seed", "7", limit=300)
    assert done.code == 0, done.err
    trials = {trial["variant"]: trial for trial in done.json()["trials"]}
    assert {name: trial["values"]["steps"] for name, trial in trials.items()} == {
        "on-demand": 30,
        "provisioned": 30,
    }


IN_A_SLICE = """\
experiment: in-a-slice
question: Does an AllReduce that begins before its straggler arrives run inside a slice of a mesh?
needs: {hosts: 4, fabric: circuit}
jobs:
  main: {kind: collective, ranks: 4, algorithms: [ring, stragglar], sizes: [768 KiB], iterations: 4}
faults: [{kind: straggler, target: rank 3, at: {step: 1}, delay: 200 ms}]
checks:
  steps: {equals: 8}
"""


def test_stragglar_begins_before_its_straggler_in_a_slice_of_a_photonic_mesh(
    testbed: CommandLine, tmp_path: Path
) -> None:
    lab = tmp_path / "mesh-quad.yaml"
    lab.write_text((ROOT / "configs" / "mesh-quad.yaml").read_text() + "\nallow: [straggler]\n")
    file = tmp_path / "in-a-slice.yaml"
    file.write_text(IN_A_SLICE)
    where = ["--lab", str(lab), "--results", str(testbed.results), "--twin", "--json"]
    done = testbed("run", str(file), *where, limit=200)
    assert done.code == 0, done.err
    samples = [e["data"] for e in events_of(testbed.results / "latest") if e["kind"] == "sample"]
    algorithms = {sample["algorithm"].partition("_")[0] for sample in samples}
    assert algorithms == {"ring", "stragglar"}
    assert all(sample["verified"] for sample in samples)
