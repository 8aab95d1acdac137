"""The checkpoints of a run on a host: they outlive its agent, and nothing of them the run."""

import os
import signal
from pathlib import Path

import pytest

from testbed.onhost.agent import checkpoints, journal
from testbed.onhost.agent.checkpoints import Checkpoints
from testbed.onhost.agent.journal import HostJournal
from tests.unit.bench.agent_on_pipes import configuration
from tests.unit.bench.private_host import is_possible

MODEL = {"dim": 8, "layers": 1, "heads": 1, "hidden": 8, "sequence": 4, "batch": 1}
JOB = {"kind": "train", "options": MODEL, "checkpoint": {"every": 1, "keep": 2}}
THERE = {("_run-1", "_h0")}

on_private_host = pytest.mark.skipif(
    not is_possible(),
    reason="this machine gives no user and network namespaces, or has no ip",
)


def start(agent, history="a", job=JOB):
    """Start a rank of a job that writes checkpoints."""
    agent.ask("start", slot=0, env={})
    agent.tell(0, "configure", **{**configuration(), "job": job, "history": history})
    return agent.events.wait_for("ready")


def train(agent, job=JOB):
    """Train three steps on one rank, and wait for the checkpoint after the first."""
    ready = start(agent, job=job)
    member = {"rank": 0, "address": ready["address"], "port": ready["port"]}
    agent.tell(0, "finish", after_step=2)
    agent.tell(0, "join", generation=1, members=[member], step=0, restore={}, probe=False)
    agent.events.wait_for("checkpoint", step=1)
    agent.events.wait_for("done")


def kill(agent):
    os.kill(agent.process.pid, signal.SIGKILL)
    agent.wait()


@on_private_host
def test_the_next_agent_of_a_run_finds_its_checkpoints_and_its_end_removes_them(host, agent_of):
    first = agent_of("run-1")
    train(first)
    kill(first)
    assert host.checkpoints() == THERE
    second = agent_of("run-1")
    (found,) = second.leftovers
    assert "checkpoints" not in found["recorded"]
    start(second)
    second.tell(0, "checkpoints", rank=0)
    assert second.events.wait_for("checkpoints")["steps"]
    assert second.ask("bye") == {"left": []}
    assert not host.run("find", "/var/tmp", "-mindepth", "1")


@on_private_host
def test_the_next_agent_of_another_run_removes_the_checkpoints_of_a_dead_one(host, agent_of):
    first = agent_of("run-1")
    train(first)
    kill(first)
    (found,) = agent_of("run-2").leftovers
    assert found["recorded"] == ["processes", "checkpoints"]
    assert found["left"] == []
    assert host.checkpoints() == set()


@on_private_host
def test_the_checkpoints_of_a_living_agent_stay(host, agent_of):
    train(agent_of("run-1"))
    assert agent_of("run-2").ask("bye") == {"left": []}
    assert host.checkpoints() == THERE


SHARED = {**JOB, "checkpoint": {"every": 1, "keep": 2, "directory": "/var/tmp/shared"}}
ON_SHARED = {(f"testbed-checkpoints-{os.geteuid()}", "_run-1")}


@pytest.fixture
def shared(host):
    """Return a host with a directory that others have, too."""
    host.run("mkdir", "/var/tmp/shared")
    return host


@on_private_host
def test_another_host_reads_shared_checkpoints_of_one_whose_line_ended(shared, agent_of):
    first, second = agent_of("run-1"), agent_of("run-1", "h1")
    train(first, SHARED)
    first.channel.close()
    first.wait()
    assert shared.checkpoints() == ON_SHARED
    start(second, job=SHARED)
    second.tell(0, "checkpoints", rank=0)
    assert second.events.wait_for("checkpoints")["steps"]
    assert second.ask("bye") == {"left": []}
    assert not shared.run("find", "/var/tmp/shared", "-mindepth", "1")


@on_private_host
def test_the_next_agent_of_a_run_keeps_shared_checkpoints_until_it_is_told_to_end(shared, agent_of):
    first = agent_of("run-1")
    train(first, SHARED)
    kill(first)
    second = agent_of("run-1")
    (found,) = second.leftovers
    assert found["recorded"] == ["processes"]
    assert shared.checkpoints() == ON_SHARED
    assert second.ask("bye") == {"left": []}
    assert not shared.run("find", "/var/tmp/shared", "-mindepth", "1")


@on_private_host
def test_the_next_agent_of_another_run_removes_shared_checkpoints(shared, agent_of):
    first = agent_of("run-1")
    train(first, SHARED)
    first.channel.close()  # as when the orchestrator was killed
    first.wait()
    (found,) = agent_of("run-2").leftovers
    assert (found["recorded"], found["left"]) == (["checkpoints"], [])
    assert not shared.run("find", "/var/tmp/shared", "-mindepth", "1")


@pytest.fixture
def roots(tmp_path, monkeypatch):
    """Return the only place for checkpoints and journals, a directory of this test's own."""
    monkeypatch.setattr(checkpoints, "_ROOTS", (tmp_path / "not there", tmp_path))
    monkeypatch.setattr(journal, "_places", lambda: [tmp_path / "agents"])
    return tmp_path


def placed(of, slot, history, job=JOB):
    told = of.placed(slot, {"job": job, "history": history})
    return told.get("checkpoints")


def test_a_job_that_is_started_anew_leaves_nothing_of_the_one_before(roots):
    of = Checkpoints(HostJournal("run/1", "h0"))
    first, second = (placed(of, slot, "a")["directory"] for slot in (0, 1))
    assert first == second
    assert first.startswith(f"{roots}/testbed-checkpoints-{os.geteuid()}/_run%2F1/_h0/")
    assert placed(of, 0, "b")["directory"] != first
    assert Path(first).is_dir()  # slot 1 takes part in it
    assert placed(of, 1, "b", job={"kind": "train", "options": {}}) is None
    assert not Path(first).exists()


def test_a_directory_that_others_may_write_to_is_not_used(roots):
    place = roots / f"testbed-checkpoints-{os.geteuid()}"
    place.mkdir()
    place.chmod(0o777)
    (place / "_run").mkdir()
    problem = placed(Checkpoints(HostJournal("run", "h0")), 0, "a")["problem"]
    assert f"{place}: File exists" in problem
    assert checkpoints.remove("run", "h0") == ""
    assert (place / "_run").is_dir()


def test_a_rank_without_a_place_for_checkpoints_says_why_and_ends(agent):
    agent.ask("start", slot=0, env={})
    told = {**configuration(), "job": JOB, "checkpoints": {"problem": "disk: full"}}
    agent.tell(0, "configure", **told)  # as an agent passes it on that has found none
    assert "on this host: disk: full" in agent.events.wait_for("failed")["why"]
    assert agent.events.wait_for("exit")["code"] == 1
