"""A training script that nobody changed, on re-pointed rails and with gloo on a packet switch."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from testbed.record.log import read_events
from tests.e2e.commandline import ROOT

pytest.importorskip("torch", reason="torch.distributed comes with '.[torch]'")

STEPS = 20
WITH_GLOO = f'jobs.main.script=[examples/torch/dp_pp.py, --steps, "{STEPS}", --backend, gloo]'


def losses(run: Path) -> list[str]:
    said = "".join(path.read_text() for path in sorted(run.glob("logs/*/program.stdout")))
    found = re.findall(r"step \d+ loss (\S+)", said)
    assert len(found) == STEPS
    return found


def test_its_losses_are_the_same_while_its_rails_are_re_pointed(testbed, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    done = testbed.run("unchanged-script", "--twin", "--seed", "7")
    assert done.code == 0, done.err
    on_rails, events = losses(testbed.results / "latest"), {}
    for event in read_events(testbed.results / "latest" / "events.jsonl"):
        events.setdefault(event.kind, []).append(event.data)
    lit = [said["stage"][0][:2] for said in events["stage.lit"] if said["changed"]]
    assert lit.count("dp") >= STEPS and lit.count("pp") >= STEPS
    assert len(events["fabric.change"]) >= len(lit)
    removed = json.loads((testbed.results / "latest" / "summary.json").read_text())[
        "removed_circuits"
    ]
    assert removed["looked_at"] > STEPS
    assert (removed["under_traffic"], removed["not_judged"]) == (0, 0)
    packet = str(ROOT / "configs" / "packet-rails.yaml")
    done = testbed.run(
        "unchanged-script", "--lab", packet, "--twin", "--seed", "7", "-S", WITH_GLOO
    )
    assert done.code == 0, done.err
    assert losses(testbed.results / "latest") == on_rails
