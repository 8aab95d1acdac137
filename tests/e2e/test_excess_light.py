"""Light that is too strong for a receiver, although the plan was right: seen, told and ended."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.commandline import ROOT, CommandLine

HERE = Path(__file__).parent


def test_light_that_becomes_too_strong_during_a_run_fails_the_run(
    testbed: CommandLine,
) -> None:
    script = HERE / "inside" / "too_bright.py"
    done = testbed.inside("../tests/e2e/bright/lab", script, str(testbed.results))
    found = json.loads(done.out)
    before, after = found["destroyed"]
    assert before == []
    assert [one["port"] for one in after] == ["h1.p0"]
    assert 0.0 < after[0]["dbm"] < 6.0
    burnt = found["burnt"]
    assert (burnt["code"], burnt["summary"]["outcome"]) == (1, "failed")
    assert burnt["summary"]["reason"].startswith("the receiver of h1.p0 was destroyed: it got ")
    assert burnt["summary"]["health"][0] == burnt["summary"]["reason"]
    assert burnt["summary"]["cleanup"] == "verified"
    rows = {row["kind"]: row for row in found["events"]}
    assert rows["receiver.destroyed"]["subject"] == "h1.p0"
    assert rows["receiver.destroyed"]["t"] < rows["light.excess"]["t"]
    assert rows["light.excess"]["subject"] == "ocs.2→11"


def test_a_change_by_hand_waits_for_light_as_long_as_the_switch_of_the_twin_settles(
    testbed: CommandLine,
) -> None:
    """It settles in 300 ms, and its driver waits for 50 ms where the lab is no twin's."""
    script = HERE / "inside" / "change_by_hand.py"
    done = testbed.inside("../tests/e2e/bright/lab", script, str(testbed.results))
    found = json.loads(done.out)
    assert (found["code"], found["err"]) == (0, "")
    assert '"ingress": 4' in found["rows"]


SHIPPED = (
    *("allreduce", "command", "faults", "lumion", "reconfigure", "resume", "settle"),
    "unpleasant-switch",
)
"""The experiments on circuits, whose labs have one switch with ports of two fibres each."""


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("experiment", SHIPPED)
def test_no_shipped_experiment_exceeds_the_power_limit_of_a_receiver(
    testbed: CommandLine, tmp_path: Path, experiment: str
) -> None:
    """Every receiver withstands 1 dBm, a half more than every source may be by what is measured."""
    text = (ROOT / "experiments" / f"{experiment}.yaml").read_text()
    name = re.search(r"^lab: (\S+)", text, re.MULTILINE)
    assert name
    lab = (ROOT / "configs" / f"{name[1]}.yaml").read_text()
    lab = re.sub(r"(rx: ocs\.\d+)\}", r"\1, max_dbm: 1 dBm}", lab)
    lab = lab.replace("driver: polatis,", "driver: polatis, monitors: true,")
    assert lab.count("max_dbm") >= 8 and "monitors" in lab
    (tmp_path / "lab.yaml").write_text(lab)
    limited = ["--lab", str(tmp_path / "lab.yaml"), "-S", "trials=1"]
    done = testbed.run(experiment, *limited, limit=550.0)
    summary = done.json()
    assert summary["outcome"] in ("passed", "failed", "inconclusive"), (summary, done.err)
    assert all(trial["valid"] for trial in summary["trials"]), summary["trials"]
    assert "withstands" not in summary["reason"]
    assert not [trial for trial in summary["trials"] if "is dark" in trial["reason"]]
    assert not [line for line in summary["health"] if "destroyed" in line]
