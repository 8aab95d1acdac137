"""Fixtures of the tests that run the whole command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.commandline import COMMAND, ROOT, CommandLine
from tests.e2e.running_twin import RunningTwin

LONGEST_FIRST = (
    *("test_killed_runs", "test_recovery", "test_failures_during_a_run", "test_tenants"),
    *("test_photonic_mesh", "test_verdicts", "test_rotation", "test_concurrent_runs"),
    *("test_bidi", "test_failed_recoveries", "test_real_circuits", "test_shared_hosts"),
    *("test_groups", "test_plugin", "test_ridden_out", "test_two_faults", "test_packet_rack"),
    *("test_restarting", "test_programs", "test_chosen_collective", "test_attenuation"),
    *("test_shrinking", "test_unknown_names", "test_wiring", "test_training_on_rails"),
    *("test_spare_in_use", "test_unpleasant_switch", "test_run_time_limits"),
    *(
        "test_opus_on_a_lab",
        "test_reconfigured_collectives",
        "test_excess_light",
        "test_busy_paced_trials",
    ),
)
"""Files in the order of what they take; the others take less.

With `--dist loadfile` a worker takes whole files: one that is long and begins last leaves the other
worker idle.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: number for number, name in enumerate(LONGEST_FIRST)}
    ours = [item for item in items if item.path.parent == Path(__file__).parent]
    others = [item for item in items if item.path.parent != Path(__file__).parent]
    items[:] = others + sorted(ours, key=lambda item: place.get(item.path.stem, len(place)))


@pytest.fixture(scope="session", autouse=True)
def _machine_can_be_a_twin() -> None:
    done = subprocess.run([*COMMAND, "doctor", "--json"], capture_output=True, text=True)
    lacking = [row for row in json.loads(done.stdout) if not row["good"]]
    if lacking:
        pytest.skip(f"this machine cannot be a twin: {lacking[0]}")


@pytest.fixture
def testbed(tmp_path: Path) -> Iterator[CommandLine]:
    line = CommandLine(tmp_path / "results")
    yield line
    for process in line.running:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.communicate()


@pytest.fixture(scope="session")
def rack() -> Iterator[str]:
    """A twin of the rack that stays up for all tests of a process, which leave it as it was."""
    name = f"test-{os.getpid()}"
    subprocess.run([*COMMAND, "twin", "up", "rack", "--name", name], cwd=ROOT, check=True)
    yield name
    subprocess.run([*COMMAND, "twin", "down", name], cwd=ROOT, check=True)


@pytest.fixture(autouse=True)
def _no_circuit_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves light on the rack that the tests after it use, too."""
    yield
    if "rack" in request.fixturenames:
        light: dict[str, str] = {}
        for _, port, what in RunningTwin(request.getfixturevalue("rack")).ask(do="light"):
            if what in ("lit", "dark"):
                light[port] = what
        assert [port for port, what in light.items() if what == "lit"] == []
