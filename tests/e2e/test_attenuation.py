"""Light as a quantity: attenuators take it, power meters see it, receivers need enough of it."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from commandline import CommandLine

HERE = Path(__file__).parent
LAB = str(HERE / "attenuation" / "lab.yaml")
EXPERIMENT = str(HERE / "attenuation" / "experiment.yaml")


def test_a_meter_sees_what_an_attenuator_takes_and_a_receiver_loses_its_carrier(
    testbed: CommandLine,
) -> None:
    done = testbed.inside("../tests/e2e/attenuation/lab", HERE / "inside" / "measure_light.py")
    found = json.loads(done.out)
    near = pytest.approx
    assert found["no circuit"] == [near(1.0, abs=0.1), None, None, None]
    assert found["circuit"][0] == near(1.0, abs=0.1)
    arriving = found["circuit"][1]
    assert -0.8 < arriving < 0.6  # 1 dBm less what a switch takes
    assert found["10 dB less"] == [near(-9, abs=0.1), near(arriving - 10, abs=0.1), *_rest(found)]
    assert found["20 dB less"][1] == near(arriving - 20, abs=0.1)
    assert found["20 dB less"][3] == "carrier-lost"
    assert found["light again"] == [near(level, abs=0.1) for level in found["circuit"][:3]] + [
        "carrier"
    ]
    assert found["shut"][:2] == [None, None]
    assert found["shut"][3] == "carrier-lost"
    assert found["open"][3] == "carrier"
    assert found["12 dB less at the other receiver"][2] == near(found["open"][2] - 12, abs=0.1)
    assert found["no power"][:3] == [None, None, None]


def _longest(run: Path, number: int) -> tuple[float, float]:
    """Return the longest steps of rank 0 before the fault and from it on, by its own clock."""
    rows = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    mine = [row for row in rows if row.get("trial") == number]
    (fault,) = [row["seq"] for row in mine if row["kind"] == "fault.inject"]
    steps = [row for row in mine if row["kind"] == "step" and row["data"]["rank"] == 0]
    took: dict[bool, list[float]] = {False: [], True: []}
    for one, later in pairwise(steps):
        took[later["seq"] > fault].append(later["data"]["mono"] - one["data"]["mono"])
    return max(took[False]), max(took[True])


def _rest(found: dict[str, list[object]]) -> list[object]:
    return [pytest.approx(found["circuit"][2], abs=0.1), "carrier"]


def test_a_job_goes_on_after_an_attenuation_and_the_lab_is_as_before(testbed: CommandLine) -> None:
    where = ["--results", str(testbed.results), "--json"]
    done = testbed("run", EXPERIMENT, "--lab", LAB, "--twin", "--seed", "1", *where)
    assert done.code == 0, done.err
    summary = done.json()
    observers = {t["variant"]: t["receipt"]["observer"] for t in summary["trials"]}
    assert observers["into-the-switch"] in ("h1.p0 carrier", "opm.1 meter")
    assert observers["at-the-receiver"] in ("h1.p1 carrier", "opm.3 meter")
    assert observers["still-enough"] == "opm.1 meter"
    assert all(trial["valid"] for trial in summary["trials"])
    assert summary["cleanup"] == "verified"
    run = testbed.results / "latest"
    for trial in summary["trials"]:
        before, after = _longest(run, trial["trial"])
        if trial["variant"] != "still-enough":
            assert trial["response"] == "recovered" and trial["recovered"]
            assert trial["values"]["recovery_time"] > after > 0.25  # held for 300 ms
            assert trial["marks"]["t1"] < 0.3 and trial["mark_errors"]["t0"] < 0.3
        elif trial["response"] == "ridden out":
            assert trial["recovered"] is None and "recovery_time" not in trial["values"]
            assert "dip" in trial["values"] and "t10" not in trial["marks"]
        else:  # this machine made a step longer than any of 150 before
            assert trial["response"] == "recovered" and after > 0.9 * before
    rows = [json.loads(line) for line in (run / "wire" / "voa.jsonl").read_text().splitlines()]
    settings = [r["data"].split(";")[0] for r in rows if "ATT " in r["data"]]
    assert sorted(settings) == sorted(
        [f":INP1:ATT {loss}" for loss in ("20.000", "5.000", "0.000", "0.000")]
        + [f":INP2:ATT {loss}" for loss in ("20.000", "0.000")]
    )
    journal = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    promised = {row["id"] for row in journal if row.get("undo") == "attenuation"}
    assert len(promised) == 3
    assert promised <= {row.get("done") for row in journal}
