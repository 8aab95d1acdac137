"""A twin's instruments, and the run that uses them, preempt the hosts they share a machine with."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.twin import registry
from tests.e2e.commandline import SMALL_RING, CommandLine
from tests.e2e.running_twin import RunningTwin


def _policies(*processes: int) -> set[int]:
    """Return the scheduling policies of all threads of some processes."""
    tasks = [task for one in processes for task in Path(f"/proc/{one}/task").iterdir()]
    return {os.sched_getscheduler(int(task.name)) for task in tasks}


def _is_permitted() -> bool:
    """Tell whether this user may have a process preempt others, by trying it in a new one."""
    text = "from testbed.twin.precedence import *; take_precedence(); exit(not has_precedence())"
    return subprocess.run([sys.executable, "-c", text], check=False).returncode == 0


def _await_policy(process: int, policy: int) -> None:
    """Wait until the main thread of a process has a policy; fail when the process ends first."""
    while os.sched_getscheduler(process) != policy:
        time.sleep(0.002)


def test_instruments_and_a_run_preempt_ranks_and_agents(testbed: CommandLine, rack: str) -> None:
    if not _is_permitted():
        pytest.skip("it takes CAP_SYS_NICE to preempt normal processes")
    twin = RunningTwin(rack)
    run = testbed.start("run", "lumion", "--twin", rack, "--repeat", "1", "--report", *SMALL_RING)
    run.await_event(lambda event: event["kind"] == "step")
    commands = registry.find(rack).sandbox.commands()
    ranks, agents = twin.marked(), twin.agents("h0")
    assert commands and ranks and agents
    assert _policies(twin.server, *commands) == {os.SCHED_RR}
    assert _policies(*ranks, *agents) == {os.SCHED_OTHER}
    notes = [event for event in run.events() if event["kind"] == "note"]
    assert not any("compete" in note["data"]["text"] for note in notes)
    run.await_event(lambda event: event["kind"] == "run.end")
    (command,) = commands
    _await_policy(command, os.SCHED_OTHER)
    assert run.finish().code == 0
