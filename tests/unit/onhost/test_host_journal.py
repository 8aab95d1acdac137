"""The journal of an agent, cut anywhere: an undo that counts is whole, and none is lost before."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.onhost.agent import cpu_limits, journal
from testbed.onhost.agent.journal import HostJournal, OrphanedJournal, orphaned_journals
from testbed.onhost.agent.processes import MARK
from testbed.onhost.agent.server import Agent
from testbed.onhost.agent.undo import undo, undo_orphaned_journals


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only place for journals, a directory of this test's own."""
    monkeypatch.setattr(journal, "_places", lambda: [tmp_path / "agents"])
    return tmp_path / "agents"


def entries_of(data: bytes, path: Path) -> list[dict[str, Any]]:
    path.write_bytes(data)
    return OrphanedJournal(path, os.open(path, os.O_RDONLY), {"run": "r", "host": "h"}).entries()


@given(
    acts=st.lists(st.sampled_from(["promise", "settle"]), max_size=12),
    cut=st.floats(0, 1),
)
def test_truncated_journal_keeps_every_entry_not_marked_undone(
    tmp_path_factory: pytest.TempPathFactory, acts: list[str], cut: float
) -> None:
    lines, open_after = [b'{"run": "r"}\n'], [[]]
    open_now: list[int] = []
    for number, act in enumerate(acts):
        if act == "promise":
            lines.append(json.dumps({"id": number, "undo": "stop"}).encode() + b"\n")
            open_now = [*open_now, number]
        elif open_now:
            lines.append(json.dumps({"done": open_now[-1]}).encode() + b"\n")
            open_now = open_now[:-1]
        else:
            continue
        open_after.append(open_now)
    data = b"".join(lines)
    kept = max(len(lines[0]), round(cut * len(data)))
    found = entries_of(data[:kept], tmp_path_factory.getbasetemp() / "cut.jsonl")
    # A line whose newline alone is missing is whole, and counts.
    whole = (data[:kept] + b"\n" if kept < len(data) else data).count(b"}\n") - 1
    assert [entry["id"] for entry in found] == open_after[whole][::-1]


def test_journal_file_is_removed_when_no_entry_is_open(place: Path) -> None:
    mine = HostJournal("run-1", "h0")
    (file,) = place.iterdir()
    assert json.loads(file.read_text())["run"] == "run-1"
    assert file.stat().st_mode & 0o777 == 0o600
    number = mine.record("stop", pid=1, born="2")
    assert json.loads(file.read_text().splitlines()[1]) == {
        "id": number,
        "undo": "stop",
        "pid": 1,
        "born": "2",
    }
    mine.mark_undone(number)
    mine.close()
    assert not place.exists()


def test_the_journal_of_an_agent_with_an_open_entry_is_kept_for_the_next_agent(place: Path) -> None:
    mine = HostJournal("run-1", "h0")
    mine.record("stop", pid=os.getpid(), born="another start")
    assert orphaned_journals("run-2", "h0") == []
    mine.close()
    (found,) = undo_orphaned_journals("run-2", "h0")
    about = {"run": "run-1", "host": "h0", "recorded": ["stop"], "left": []}
    assert found == {**about, "kept": []}
    assert not place.exists()


def test_ranks_of_a_dead_agent_are_killed_before_waiting_for_its_ip_commands(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.onhost.agent.undo._LIMIT", 60.0)
    waits = ["ip", "-c", "input()", "-batch"]
    with (
        subprocess.Popen(waits, executable=sys.executable, stdin=subprocess.PIPE) as ip,
        subprocess.Popen(["sleep", "600"], env={MARK: "run-1/h0/7-1"}) as rank,
    ):
        mine = HostJournal("run-1", "h0")
        mine.record("processes", mark="run-1/h0/7-1")
        mine.record("network", changes=[])
        mine.close()
        undoing = threading.Thread(target=undo_orphaned_journals, args=("run-2", "h0"))
        undoing.start()
        rank.wait(30)
        assert undoing.is_alive()
        ip.communicate(b"\n")
    undoing.join()
    assert not place.exists()


def test_an_agent_that_cannot_write_its_first_entry_leaves_no_journal(place: Path) -> None:
    other = HostJournal("run-1", "h0")
    (file,) = place.iterdir()
    header = file.stat().st_size
    other.close()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (header + 8, before[1]))  # no file grows beyond that
    try:
        with pytest.raises(OSError, match=r"writing .* failed"):
            Agent(-1).do_hello({"run": "run-1", "host": "h0", "patience": 1.0, "interfaces": []})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not place.exists()


def test_the_agents_journal_falls_back_to_the_next_writable_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").touch()
    places = [tmp_path / "a file" / "agents", tmp_path / "agents"]
    monkeypatch.setattr(journal, "_places", lambda: places)
    mine = HostJournal("run-1", "h0")
    assert [path.suffix for path in places[1].iterdir()] == [".jsonl"]
    mine.close()


def test_an_undo_of_a_change_that_no_longer_exists_has_no_effect() -> None:
    nothing = {"undo": "processes", "mark": "nobody/h0/1-1"}
    assert [undo(nothing), undo(nothing)] == ["", ""]
    assert undo({"undo": "stop", "pid": os.getpid(), "born": "another start"}) == ""


def test_cgroup_of_a_quota_is_removed_after_its_processes_ended(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that is not empty stands for a group in which something runs."""
    monkeypatch.setattr(cpu_limits, "_CGROUPS", tmp_path)
    task = tmp_path / "testbed-7" / "task"
    with subprocess.Popen(["sleep", "600"], env={MARK: "run-1/h0/7-1"}) as process:
        task.mkdir(parents=True)
        mine = HostJournal("run-1", "h0")
        mine.record("processes", mark="run-1/h0/7-1")
        mine.record("group", name="testbed-7")
        mine.close()
        threading.Thread(target=lambda: (process.wait(), task.rmdir())).start()
        (found,) = undo_orphaned_journals("run-2", "h0")
    assert found["left"] == []
    assert not (tmp_path / "testbed-7").exists()
    assert undo({"undo": "group", "name": "testbed-7"}) == ""
