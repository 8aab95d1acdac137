"""The claims of the main experiment, with the counts that they need; run by `make soak`."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from tests.e2e.commandline import CommandLine

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1500)]

WARM_ONLY = ["-S", "variants={splice-warm: {policy.standby: warm}}"]
SETTLE = {"settle-0": 0.0, "settle-25": 0.025, "settle-200": 0.2, "settle-1000": 1.0}
LINK_UP = 0.010


def values(summary: dict, arm: str, name: str) -> list[float]:
    return [t["values"][name] for t in summary["trials"] if t["variant"] == arm and t["valid"]]


def test_59_of_59_power_cuts_are_recovered_within_a_second(testbed: CommandLine) -> None:
    done = testbed.run(
        "lumion", *WARM_ONLY, "--repeat", "59", "-S", "limits.run=20 min", limit=1400
    )
    assert done.code == 0, done.err
    summary = done.json()
    (check,) = [c for c in summary["checks"] if c["name"].startswith("splice-warm.recovery_time")]
    assert check["verdict"] == "passed" and check["supports"] >= 0.95
    metric = summary["metrics"]["splice-warm.recovery_time"]
    assert metric["n"] == 59 and metric["median"] <= metric["predicted"] + 0.060
    print({"recovery": metric, "light": summary["metrics"]["splice-warm.fabric_ready"]})


def test_the_recovery_time_of_every_fault_is_near_its_prediction(testbed: CommandLine) -> None:
    """A frozen rank takes its heartbeat's limit, which is part of the prediction."""
    done = testbed.run("faults", "--repeat", "12", "-S", "limits.run=20 min", limit=1400)
    assert done.code == 0, done.err
    for name in ("power-cut", "rank-kill", "rank-freeze", "dark-circuit"):
        print(name, done.json()["metrics"][f"{name}.recovery_time"])


def test_only_the_reconfiguration_time_grows_with_the_settle_time_of_the_switch(
    testbed: CommandLine,
) -> None:
    done = testbed.run("settle", "--repeat", "8", "-S", "limits.run=20 min", limit=1400)
    assert done.code == 0, done.err
    summary = done.json()
    points = [(s, v) for arm, s in SETTLE.items() for v in values(summary, arm, "reconfiguration")]
    slope, constant = np.polyfit(*zip(*points, strict=True), 1)
    assert abs(slope - 1.0) <= 0.05 and constant <= LINK_UP + 0.030
    resuming = [statistics.median(values(summary, arm, "resuming")) for arm in SETTLE]
    spread = max(resuming) - min(resuming)
    assert spread <= max(0.10 * statistics.median(resuming), 0.010)
    print({"slope": slope, "constant": constant, "resuming": resuming})


def test_recovered_jobs_end_with_the_same_parameters_as_undisturbed_ones(
    testbed: CommandLine,
) -> None:
    done = testbed.run("resume", "--repeat", "8", "-S", "limits.run=20 min", limit=1400)
    assert done.code == 0, done.err
    assert len({trial["values"]["digest"] for trial in done.json()["trials"]}) == 1


def test_the_default_experiment_passes_with_a_switch_on_a_serial_line(testbed: CommandLine) -> None:
    done = testbed.run("lumion", "--lab", "serial-rack", "--repeat", "10", limit=600)
    assert done.code == 0, done.err
