"""Light as a quantity: attenuators take it, power meters see it, receivers need enough of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commandline import CommandLine

HERE = Path(__file__).parent
LAB = str(HERE / "attenuation" / "lab.yaml")
EXPERIMENT = str(HERE / "attenuation" / "experiment.yaml")
LESS = ("3.000", "4.000", "5.000", "6.000")
"""Decibels that a fibre takes in the arms in which enough light is left."""


def test_attenuation_lowers_the_meter_reading_and_ends_the_carrier(
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


@dataclass(frozen=True, slots=True)
class Course:
    """The steps of one trial, by the test's own reckoning, in the seconds of the run's log."""

    before: list[float]
    """How long each step took that ended before the fault."""
    under: list[float]
    """The same of those that began before it was undone, and of one more."""
    loose: float
    """How wrong the length of a step may be at most."""


def _course(run: Path, number: int) -> Course:
    """Return what the steps of a trial took, whichever rank was last, by its events alone."""
    rows = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    clocks: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["kind"] == "clock.offset":
            clocks.setdefault(row["subject"], []).append(row)

    def when(host: str, mono: float) -> float:
        near = min(clocks[host], key=lambda one: abs(mono - one["data"]["ahead"] - one["t"]))
        return float(mono - near["data"]["ahead"])

    mine = [row for row in rows if row.get("trial") == number]
    (zero,) = [row["data"]["sent"] for row in mine if row["kind"] == "fault.inject"]
    (over,) = [row["data"]["done"] for row in mine if row["kind"] == "fault.undo"]
    said: dict[int, list[float]] = {}
    for row in mine:
        if row["kind"] == "step":
            at = when(row["data"]["host"], row["data"]["end"])
            said.setdefault(row["data"]["step"], []).append(at)
    ends = [max(at) for _, at in sorted(said.items()) if len(at) == 2]
    steps = list(pairwise(ends))
    under = [end - begin for begin, end in steps if end >= zero and begin <= over]
    under += [end - begin for begin, end in steps if begin > over][:1]
    bounds = [row["data"]["bound"] for of in clocks.values() for row in of]
    # Half a second from a sample, clocks that differ by 200 ppm are 0.1 ms apart.
    loose = 2 * (max(bounds) + 0.0001)
    return Course([end - begin for begin, end in steps if end < zero], under, loose)


def _assert_verdict_follows(trial: dict[str, Any], course: Course) -> None:
    """Hold what a trial says of a fault that left enough light against the steps themselves."""
    excess = max(course.under) - max(course.before)
    share = len(course.under) / (len(course.before) + len(course.under))
    assert trial["by_chance"] == pytest.approx(share, rel=0.5)
    print(f"{trial['variant']}: {trial['response']}, {excess * 1e3:+.2f} ms, by chance {share:.3f}")
    if trial["response"] == "ridden out":
        assert excess < 4 * course.loose
        assert trial["recovered"] is None and "recovery_time" not in trial["values"]
        assert "dip" in trial["values"] and "t10" not in trial["marks"]
    else:  # this machine made a step longer than any before
        assert trial["response"] == "recovered" and excess > -2 * course.loose


def _rest(found: dict[str, list[object]]) -> list[object]:
    return [pytest.approx(found["circuit"][2], abs=0.1), "carrier"]


def test_a_job_continues_after_attenuations_and_the_lab_is_restored(testbed: CommandLine) -> None:
    where = ["--results", str(testbed.results), "--json"]
    done = testbed("run", EXPERIMENT, "--lab", LAB, "--twin", "--seed", "1", *where)
    assert done.code == 0, done.err
    summary = done.json()
    run = testbed.results / "latest"
    assert all(trial["valid"] for trial in summary["trials"])
    assert summary["cleanup"] == "verified"
    trials = {trial["variant"]: trial for trial in summary["trials"]}
    observers = {name: trial["receipt"]["observer"] for name, trial in trials.items()}
    assert observers["into-the-switch"] in ("h1.p0 carrier", "opm.1 meter")
    assert observers["at-the-receiver"] in ("h1.p1 carrier", "opm.3 meter")
    for name in ("into-the-switch", "at-the-receiver"):
        trial = trials.pop(name)
        course = _course(run, trial["trial"])
        assert trial["response"] == "recovered" and trial["recovered"]
        assert trial["values"]["recovery_time"] > max(course.under) > 0.25  # held for 300 ms
        assert trial["marks"]["t1"] < 0.3 and trial["mark_errors"]["t0"] < 0.3
    for name, trial in trials.items():
        assert observers[name] == "opm.1 meter"
        _assert_verdict_follows(trial, _course(run, trial["trial"]))
    # By chance a step is long in about one of 20 of them, hardly ever in all four.
    assert "ridden out" in {trial["response"] for trial in trials.values()}
    rows = [json.loads(line) for line in (run / "wire" / "voa.jsonl").read_text().splitlines()]
    settings = [r["data"].split(";")[0] for r in rows if "ATT " in r["data"]]
    assert sorted(settings) == sorted(
        [f":INP1:ATT {loss}" for loss in ("20.000", *LESS, *5 * ["0.000"])]
        + [f":INP2:ATT {loss}" for loss in ("20.000", "0.000")]
    )
    journal = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    promised = {row["id"] for row in journal if row.get("undo") == "attenuation"}
    assert len(promised) == 6
    assert promised <= {row.get("done") for row in journal}


@pytest.mark.soak
def test_weak_attenuations_are_misjudged_as_recoveries_as_often_as_stated(
    testbed: CommandLine,
) -> None:
    """Forty trials: those called recovered are about as many as their probabilities say."""
    enough = {f"{loss[0]}-dB-less": {"faults.0.loss": f"{loss[0]} dB"} for loss in LESS}
    every = {"faults.0.at.step": 120, "faults.0.hold": "20 ms"}
    variants = json.dumps({name: one | every for name, one in enough.items()})
    where = ["--lab", LAB, "--twin", "--results", str(testbed.results), "--json"]
    done = testbed("run", EXPERIMENT, "-S", f"variants={variants}", "--repeat", "10", *where)
    assert done.code == 0, done.err
    trials = done.json()["trials"]
    for trial in trials:
        _assert_verdict_follows(trial, _course(testbed.results / "latest", trial["trial"]))
    expected = sum(trial["by_chance"] for trial in trials)
    found = sum(trial["response"] == "recovered" for trial in trials)
    print(f"{found} of {len(trials)} called recovered, {expected:.1f} expected by chance")
    assert found <= len(trials) / 2
