"""Nights on real twins: green, and red for what was planted, with the right check named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commandline import ROOT

SLEEPS = """\
experiment: sleeps
question: How long does a program sleep?
lab: rack
needs: {hosts: 2, fabric: circuit}
jobs:
  main:
    kind: command
    ranks: 2
    command:
      - python3
      - -c
      - |
        import sys, time
        begin = time.perf_counter()
        time.sleep(float(sys.argv[1]))
        print("took", time.perf_counter() - begin)
      - "0.25"
    metrics: {asleep: {pattern: 'took ([0-9.]+)', unit: s, better: lower}}
variants:
  one: {}
  other: {}
trials: 6
checks:
  one.asleep: {median: "< 10 s"}
"""

ALLREDUCE = """\
experiment: sums
question: Are sums right?
lab: rack
needs: {hosts: 3, fabric: circuit}
jobs: {main: {kind: allreduce, ranks: 3, sizes: [64 KiB], iterations: 2}}
trials: 6
"""

WRONG = """

_right = Ring.all_reduce


def _wrong(self: Ring, vector: Vector) -> ScheduleRecord:
    record = _right(self, vector)
    vector[len(vector) // 2] += 1
    return record


Ring.all_reduce = _wrong
"""


def night(place: Path, code: Path = ROOT) -> tuple[int, Any]:
    """Run a night with the code of a checkout; return its exit code and what it wrote."""
    paths = {"experiments": place / "experiments", "labs": place / "configs"}
    where = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    results = place / "results"
    done = subprocess.run(
        [sys.executable, "-m", "testbed.cli", "nightly", *where, "--results", str(results)],
        env={**os.environ, "PYTHONPATH": f"{code}:{code / 'drivers'}"},
        cwd=place,
        capture_output=True,
        text=True,
        timeout=600,
    )
    print(done.stderr, done.stdout)
    return done.returncode, json.loads((results / "nightly" / "nightly.json").read_text())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("experiments", "configs"):
        (tmp_path / name).mkdir()
    shutil.copy(ROOT / "configs" / "rack.yaml", tmp_path / "configs")
    return tmp_path


def red(facts: Any) -> list[str]:
    """Return the names of the cases that a night was red for."""
    cases = [case for run in facts["runs"] for case in run["cases"]]
    return [case["name"] for case in cases if case["fate"] in ("failure", "error")]


@pytest.mark.soak
def test_a_planted_slowdown_of_a_fifth_is_found_and_an_unchanged_run_passes(place: Path) -> None:
    file = place / "experiments" / "sleeps.yaml"
    file.write_text(SLEEPS)
    code, facts = night(place)
    assert (code, red(facts)) == (0, []) and facts["new_baselines"] == 2
    assert night(place)[0] == 0
    file.write_text(SLEEPS.replace("other: {}", 'other: {jobs.main.command.3: "0.3"}'))
    code, facts = night(place)
    assert (code, red(facts)) == (1, ["other is as fast as before"])
    assert "other is as fast as before: asleep is slower" in facts["reason"]


@pytest.mark.soak
def test_a_wrong_sum_fails_the_nightly_run_and_its_trial_is_named(place: Path) -> None:
    (place / "experiments" / "sums.yaml").write_text(ALLREDUCE)
    assert night(place)[0] == 0
    code = place / "code"
    for part in ("testbed", "drivers"):
        shutil.copytree(ROOT / part, code / part, ignore=shutil.ignore_patterns("__pycache__"))
    with (code / "testbed" / "onhost" / "communication" / "ring.py").open("a") as ring:
        ring.write(WRONG)
    found, facts = night(place, code)
    assert found == 1
    assert set(red(facts)) == {f"trial {number} of only" for number in range(6)}
    assert "element" in facts["reason"]
