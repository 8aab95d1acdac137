"""A program that a rank runs, as the agent sees it: gone with the rank, and provably."""

from __future__ import annotations

import signal
import sys

import pytest

from tests.unit.bench.agent_on_pipes import LOOPBACK, watched

SPAWNS = """
import os, subprocess, time
away = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(os.getpid(), away.pid, flush=True)
time.sleep(1000)
"""


@pytest.fixture
def program(agent):
    """Start a rank whose program has started another one, in a session of its own."""
    argv = [sys.executable, "-c", SPAWNS]
    job = {"kind": "program", "options": {"argv": argv, "environment": {}}}
    agent.ask("start", slot=0, env={})
    told = {"job": job, "rank": 0, "ranks": 1, "token": "a token", "seed": 7, "heartbeat": 30.0}
    agent.tell(0, "configure", to_next=LOOPBACK, from_previous=LOOPBACK, **told)
    ready = agent.events.wait_for("ready")
    members = [{"rank": 0, "address": ready["address"], "port": ready["port"]}]
    plan = {"generation": 1, "members": members, "step": 0, "restore": {}, "probe": False}
    agent.tell(0, "join", rank=0, **plan)
    pids = agent.events.wait_for("output")["text"].split()
    with watched(int(pids[0])) as one, watched(int(pids[1])) as other:
        yield lambda limit: one(limit) and other(limit)


def test_a_rank_ends_once_all_processes_of_its_program_ended(agent, program):
    assert agent.ask("end", slot=0) == {"gone": True}
    assert program(0)


def test_an_agent_that_is_ended_leaves_no_process_of_a_program(agent, program):
    assert agent.ask("bye") == {"left": []}
    assert program(0)


def test_an_agent_that_is_killed_leaves_no_process_of_a_program(agent, program):
    agent.process.send_signal(signal.SIGKILL)
    assert program(10)


def test_an_agent_whose_connection_is_cut_leaves_no_process_of_a_program(agent, program):
    agent.channel.close()
    assert program(10)
