"""A training script that nobody changed, on re-pointed rails and with gloo on a packet switch."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from testbed.record.log import read_events
from tests.e2e.commandline import ROOT

pytest.importorskip("torch", reason="torch.distributed comes with '.[torch]'")

STEPS = 20
PACKET = str(ROOT / "configs" / "packet-rails.yaml")
WITH_GLOO = f'jobs.main.script=[examples/torch/dp_pp.py, --steps, "{STEPS}", --backend, gloo]'


def losses(run: Path) -> list[str]:
    said = "".join(path.read_text() for path in sorted(run.glob("logs/*/program.stdout")))
    found = re.findall(r"step \d+ loss (\S+)", said)
    assert len(found) == STEPS
    return found


def both_runs(testbed, experiment):
    """Return the losses on rails and with gloo on a packet switch, and the stages of the first."""
    done = testbed.run(experiment, "--twin", "--seed", "7", limit=200)
    assert done.code == 0, done.err
    on_rails, events = losses(testbed.results / "latest"), {}
    for event in read_events(testbed.results / "latest" / "events.jsonl"):
        events.setdefault(event.kind, []).append(event.data)
    lit = [said for said in events["stage.lit"] if said["changed"]]
    assert len(events["fabric.change"]) >= len(lit)
    removed = json.loads((testbed.results / "latest" / "summary.json").read_text())[
        "removed_circuits"
    ]
    assert removed["looked_at"] > STEPS
    assert (removed["under_traffic"], removed["not_judged"]) == (0, 0)
    done = testbed.run(
        experiment, "--lab", PACKET, "--twin", "--seed", "7", "-S", WITH_GLOO, limit=200
    )
    assert done.code == 0, done.err
    return on_rails, losses(testbed.results / "latest"), lit


@pytest.fixture(autouse=True)
def torchrun_is_found(monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def test_its_losses_are_the_same_while_its_rails_are_re_pointed(testbed):
    on_rails, with_gloo, lit = both_runs(testbed, "unchanged-script")
    groups = [said["stage"][0][:2] for said in lit]
    assert groups.count("dp") >= STEPS and groups.count("pp") >= STEPS
    assert on_rails == with_gloo


@pytest.mark.timeout(480)
def test_four_replicas_on_each_rail_sum_in_pairs_one_matching_after_the_other(testbed):
    on_rails, with_gloo, lit = both_runs(testbed, "unchanged-replicas")
    joined = Counter((said["rail"], *said["stage"][2]) for said in lit)
    inner = {("rail0", 0, 2), ("rail0", 4, 6), ("rail1", 1, 3), ("rail1", 5, 7)}
    outer = {("rail0", 0, 4), ("rail0", 2, 6), ("rail1", 1, 5), ("rail1", 3, 7)}
    assert joined.keys() == inner | outer
    assert min(joined.values()) >= STEPS, "each bucket of gradients takes both matchings"
    sums = zip(map(float, on_rails), map(float, with_gloo), strict=True)
    assert all(ours == pytest.approx(theirs, rel=1e-6) for ours, theirs in sums)


def test_gloo_in_groups_of_two_leaves_each_host_by_the_port_of_the_right_rail(testbed):
    """Two hosts of two ports: what goes out by the other rail's port arrives nowhere."""
    of_two = ["-S", "jobs.main.ranks=4", "-S", "jobs.main.mesh={dp: 2, pp: 2}"]
    done = testbed.run("unchanged-replicas", "--twin", "--seed", "7", *of_two)
    assert done.code == 0, done.err
    assert len(losses(testbed.results / "latest")) == STEPS
    events = read_events(testbed.results / "latest" / "events.jsonl")
    lit = {(one.data["rail"], *one.data["stage"][2]) for one in events if one.kind == "stage.lit"}
    assert lit == {("rail0", 0, 2), ("rail1", 1, 3)}
