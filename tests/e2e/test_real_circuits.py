"""Packets go where light goes, and nowhere else."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.e2e.commandline import SMALL_MODEL, CommandLine, Started

INSIDE = Path(__file__).parent / "inside"
QUIET = ["-S", "variants={only-one: {}}", "-S", "checks={}", "-S", "faults=[]", "-S", "policy=null"]


def test_probe_packets_between_hosts_arrive_only_over_a_circuit(testbed: CommandLine) -> None:
    done = testbed.inside("rack", INSIDE / "probe_circuits.py")
    found = json.loads(done.out)
    assert found["dark"] == {"asked": 20, "answered": 0}
    assert found["lit"] == {"asked": 20, "answered": 20}
    assert found["dark again"] == {"asked": 20, "answered": 0}


def test_the_twin_hides_real_devices_and_hosts_have_clocks_of_their_own(
    testbed: CommandLine,
) -> None:
    found = json.loads(testbed.inside("serial-rack", INSIDE / "look_around.py").out)
    assert found["ttys"] == ["/dev/ttyUSB0"]
    assert found["routes_out"] == []
    assert found["seen"] and all(found["seen"].values())  # their time is no other program's
    offsets = list(found["offsets"].values())
    assert max(offsets) - min(offsets) > 10  # seconds apart, and known to a fraction of one
    assert all(bound < 0.005 for bound in found["bounds"].values())
    assert found["errors"] == [] or max(found["errors"]) < 0.005


def test_network_settings_of_hosts_are_equal_on_every_machine(
    testbed: CommandLine, rack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["ipv4/tcp_congestion_control", "ipv4/tcp_slow_start_after_idle"]
    shell = tmp_path / "shell"
    shell.write_text(
        f"#!/bin/sh\ncd /proc/sys/net && cat core/rps_default_mask {' '.join(names)}\n"
    )
    shell.chmod(0o755)
    monkeypatch.setenv("SHELL", str(shell))
    mask, control, slow_start = testbed("twin", "shell", rack, "h0").out.split()
    assert int(mask, 16).bit_count() == min(os.cpu_count() or 1, 32)
    assert (control, slow_start) == ("reno", "0")


def test_disconnecting_a_circuit_stalls_the_job_until_it_is_connected_again(
    testbed: CommandLine, rack: str
) -> None:
    # After step 10 as many seconds are left as a command may take to start on a busy machine.
    steps = ["-S", "jobs.main.steps=80", "-S", "jobs.main.pace=60 ms", "-S", "limits.trial=100 s"]
    run = testbed.start(
        "run", "experiments/resume.yaml", "--twin", rack, *SMALL_MODEL, *steps, *QUIET
    )
    run.await_event(lambda event: event["kind"] == "step" and event["data"]["step"] > 10)
    switch = ["switch", "ocs", "--lab", "rack", "--twin", rack, "--force"]
    assert testbed(*switch[:2], "disconnect", "h0.p1", "h1.p0", *switch[2:]).code == 0
    stalled = _progress_in(run, 1.0)
    assert stalled <= 1  # the step that was under way when the light went
    assert _steps(run) < 4 * 80, "the job ended before the light went"
    assert testbed(*switch[:2], "connect", "h0.p1", "h1.p0", *switch[2:]).code == 0
    done = run.finish(100)
    assert done.code == 0, done.err


def _progress_in(run: Started, seconds: float) -> int:
    """Return how many steps were finished in a while that begins once the log stands still."""
    end = time.monotonic() + 5
    before = -1
    while before != (count := _steps(run)) and time.monotonic() < end:
        before = count
        time.sleep(0.3)
    time.sleep(seconds)
    return _steps(run) - count


def _steps(run: Started) -> int:
    return sum(event["kind"] == "step" for event in run.events())
