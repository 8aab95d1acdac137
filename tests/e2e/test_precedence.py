"""A twin's instruments, and the run that uses them, preempt the hosts they share a machine with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.twin import registry
from testbed.twin.precedence import has_precedence, take_precedence
from tests.e2e.commandline import SMALL_RING, CommandLine
from tests.e2e.running_twin import RunningTwin


def _policies(*processes: int) -> set[int]:
    """Return the scheduling policies of all threads of some processes."""
    tasks = [task for one in processes for task in Path(f"/proc/{one}/task").iterdir()]
    return {os.sched_getscheduler(int(task.name)) for task in tasks}


def _is_permitted() -> bool:
    """Try it in a process that ends at once: it cannot be had twice in a user namespace."""
    if (child := os.fork()) == 0:
        take_precedence()
        os._exit(0 if has_precedence() else 1)
    return os.waitpid(child, 0)[1] == 0


def test_instruments_and_a_run_preempt_ranks_and_agents(testbed: CommandLine, rack: str) -> None:
    if not _is_permitted():
        pytest.skip("it takes CAP_SYS_NICE to preempt normal processes")
    twin = RunningTwin(rack)
    run = testbed.start("run", "lumion", "--twin", rack, "--repeat", "1", *SMALL_RING)
    run.await_event(lambda event: event["kind"] == "step")
    commands = registry.find(rack).sandbox.commands()
    ranks, agents = twin.marked(), twin.agents("h0")
    assert commands and ranks and agents
    assert _policies(twin.server, *commands) == {os.SCHED_RR}
    assert _policies(*ranks, *agents) == {os.SCHED_OTHER}
    notes = [event for event in run.events() if event["kind"] == "note"]
    assert not any("compete" in note["data"]["text"] for note in notes)
    assert run.finish().code == 0
