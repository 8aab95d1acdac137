"""Whoever reads a command, or leaves, or never was: its exit code is its own."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
TESTBED = [sys.executable, "-m", "testbed.cli"]


@pytest.fixture
def inconclusive(tmp_path):
    """Return the directory of a run in which no trial was played."""
    run = RunDirectory.create(tmp_path, "lumion")
    run.write_text("experiment.yaml", (EXPERIMENTS / "lumion.yaml").read_text())
    run.write_json("run.json", {"run": run.id, "overrides": []})
    with closing(EventLog(run.events)) as log:
        log.append("run.begin", "lumion", run=run.id, label="measured-twin", lab="rack", seed=1)
        log.append("run.end", error="", exit_code=0, cleanup="verified", left=[], signals=[])
    return str(run.path)


def unread(*words, both=False):
    """Return the exit code of a command whose reader has gone before it began."""
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        stderr = theirs if both else subprocess.DEVNULL
        return subprocess.run([*TESTBED, *words], stdout=theirs, stderr=stderr).returncode
    finally:
        os.close(theirs)


def test_a_command_succeeds_although_its_output_is_closed():
    assert unread("list", "drivers") == 0
    assert unread("schema", "lab", both=True) == 0


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_closed_output_does_not_change_the_verdict(inconclusive, form):
    assert unread("report", inconclusive, *form, both=True) == 3


def test_a_command_started_without_output_streams_succeeds(inconclusive):
    command = [*TESTBED, "report", inconclusive, "--json"]
    closed = subprocess.run(["/bin/sh", "-c", 'exec "$@" >&- 2>&-', "sh", *command])
    assert closed.returncode == 3
    assert RunDirectory(Path(inconclusive)).read_json("summary.json")["outcome"] == "inconclusive"


@pytest.mark.parametrize("words", [("schema", "lab"), ("--version",)])
def test_a_full_disk_for_the_output_is_reported_without_a_traceback(words):
    """One of these notices while it writes, the other when it hands over the last of it."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*TESTBED, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 4
    assert "writing to standard output failed: No space left" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_full_disk_for_the_output_does_not_change_the_verdict(inconclusive, form):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*TESTBED, "report", inconclusive, *form], stdout=full)
    assert done.returncode == 3


def test_a_full_disk_for_standard_error_does_not_change_the_exit_code():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*TESTBED, "validate", "no-such-file"], stderr=full)
    assert done.returncode == 2
