"""How close a recovery is to what physics leaves, and whether it follows the switch.

Run with `make bench`. The floor of a recovery is its prediction: loss of signal, settle time,
link-up, state bytes over the delivered rate, and one step; the ratio to it is what orchestration
costs. The two are measured in the same trials.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from testbed.analysis.statistics import ratio_of_medians_interval

ROOT = Path(__file__).parents[2]
SETTLE = {"settle-0": 0.0, "settle-25": 0.025, "settle-200": 0.2, "settle-1000": 1.0}


def run(experiment: str, repeat: int, results: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "testbed.cli", "run", f"experiments/{experiment}.yaml"]
    options = ["--twin", "--json", "--repeat", str(repeat), "--results", str(results)]
    done = subprocess.run([*command, *options], cwd=ROOT, stdout=subprocess.PIPE, check=False)
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def test_recovery_against_its_floor(tmp_path: Path) -> None:
    summary = run("lumion", 10, tmp_path)
    print("\nrecovery over its physical floor (t10 - t0 over the prediction; 1.00 is the floor)")
    for arm in ("splice-warm", "splice-cold"):
        trials = [t for t in summary["trials"] if t["variant"] == arm and t["recovered"]]
        measured = [trial["values"]["recovery_time"] for trial in trials]
        floor = [trial["predicted"]["recovery_time"] for trial in trials]
        low, high = ratio_of_medians_interval(measured, floor, seed=1)
        ratio = np.median(measured) / np.median(floor)
        light = np.median([trial["values"]["fabric_ready"] for trial in trials])
        print(
            f"  {arm}: {ratio:.3f} [{low:.3f}, {high:.3f}], n {len(trials)}; "
            f"t10 {np.median(measured) * 1e3:.0f} ms, t6 {light * 1e3:.0f} ms"
        )
    assert len(trials) > 0


def test_reconfiguration_follows_the_switch(tmp_path: Path) -> None:
    summary = run("settle", 4, tmp_path)
    points = [
        (SETTLE[trial["variant"]], trial["values"]["reconfiguration"])
        for trial in summary["trials"]
        if trial["recovered"]
    ]
    slope, constant = np.polyfit(*zip(*points, strict=True), 1)
    print(f"\nreconfiguration (t6 - t4) = {constant * 1e3:.1f} ms + {slope:.4f} × settle time")
    for arm in SETTLE:
        resuming = summary["metrics"][f"{arm}.resuming"]
        print(f"  {arm}: from all being ready to t10 {resuming['median'] * 1e3:.0f} ms")
    assert len(points) > 0
