"""Checkpoints on disk: whole or not there, whatever ended the process that wrote them."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.onhost.errors import Refused
from testbed.onhost.jobs.checkpoint_files import CheckpointFiles
from tests.unit.onhost.checkpoint_writer import HISTORY, KEPT, content

WRITER = Path(__file__).with_name("checkpoint_writer.py")


def written(directory, *steps, keep=KEPT):
    files = CheckpointFiles(directory, HISTORY, keep)
    for step in steps:
        files.write(step, content(step))
    return files


def paths(directory):
    return sorted(path.name for path in directory.iterdir())


def test_what_was_written_is_read(tmp_path):
    files = written(tmp_path / "new" / "place", 7)
    assert bytes(files.read(7)) == content(7)
    assert bytes(written(tmp_path / "new" / "place").read(7)) == content(7)


def test_the_newest_are_kept(tmp_path):
    files = written(tmp_path, 10, 20, 30, 40, keep=2)
    assert files.steps() == [40, 30]
    with pytest.raises(Refused, match=r"step-0000000020.checkpoint cannot be read: No such file"):
        files.read(20)


def test_later_steps_are_forgotten_when_the_job_goes_on_from_an_earlier_one(tmp_path):
    files = written(tmp_path, 10, 20, 30)
    files.forget_after(20)
    assert files.steps() == [20, 10]
    files.forget_after(0)
    assert files.steps() == []


def test_a_step_written_anew_replaces_what_was_there(tmp_path):
    files = written(tmp_path, 10)
    files.write(10, b"another course")
    assert bytes(files.read(10)) == b"another course"


@cache
def undamaged():
    """Return the bytes of a checkpoint before step 3."""
    with TemporaryDirectory() as directory:
        path = Path(directory)
        CheckpointFiles(path, HISTORY, KEPT).write(3, b"the state before step 3")
        return (path / "step-0000000003.checkpoint").read_bytes()


@given(where=st.floats(0, 1, exclude_max=True), what=st.sampled_from(["cut", "grown", "flipped"]))
def test_any_damage_is_found(tmp_path_factory, where, what):
    directory = tmp_path_factory.getbasetemp() / "damaged"
    files = CheckpointFiles(directory, HISTORY, KEPT)
    data = bytearray(undamaged())
    place = int(where * len(data))
    if what == "cut":
        del data[place:]
    elif what == "grown":
        data[place:place] = b"0"
    else:
        data[place] ^= 1 << (place % 8)
    path = directory / "step-0000000003.checkpoint"
    path.write_bytes(data)
    with pytest.raises(Refused, match="is damaged, or of another job"):
        files.read(3)
    path.write_bytes(undamaged())
    assert bytes(files.read(3)) == b"the state before step 3"


def test_a_checkpoint_of_another_job_or_step_is_refused(tmp_path):
    files = written(tmp_path, 3)
    with pytest.raises(Refused, match="of another job"):
        CheckpointFiles(tmp_path, "b", KEPT).read(3)
    (tmp_path / "step-0000000003.checkpoint").rename(tmp_path / "step-0000000004.checkpoint")
    with pytest.raises(Refused, match="damaged"):
        files.read(4)


def test_contents_are_durable_before_their_name_and_the_name_before_the_return(
    tmp_path, monkeypatch
):
    files = written(tmp_path)
    acts = []

    def watched(name, function):
        def act(*arguments):
            is_directory = Path(f"/proc/self/fd/{arguments[0]}").is_dir()
            acts.append(f"{name} directory" if is_directory else name)
            return function(*arguments)

        return act

    monkeypatch.setattr(os, "fsync", watched("sync", os.fsync))
    monkeypatch.setattr(Path, "rename", watched("rename", Path.rename))
    files.write(1, content(1))
    assert acts == ["sync", "rename", "sync directory"]


def test_a_checkpoint_that_the_disk_does_not_take_leaves_nothing(tmp_path):
    files = written(tmp_path, 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            files.write(2, content(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert paths(tmp_path) == ["step-0000000001.checkpoint"]
    files.write(2, content(2))


def test_drafts_of_a_killed_process_are_removed_and_its_own_is_not(tmp_path):
    for name in ("step-0000000001.0.draft", f"step-0000000002.{os.getpid()}.draft"):
        (tmp_path / name).write_bytes(b"half")
    assert written(tmp_path).steps() == []
    assert paths(tmp_path) == [f"step-0000000002.{os.getpid()}.draft"]


def killed_writers(directory, kills):
    """Kill a writer at random moments; look at what each has left, and let the next go on."""
    chance, step = random.Random(7), 1
    for _ in range(kills):
        command = [sys.executable, WRITER, directory, str(step)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            first = writer.stdout.readline()
            time.sleep(chance.uniform(0, 0.02))
            writer.kill()
            said = [int(line) for line in (first + writer.stdout.read()).splitlines()]
        files = CheckpointFiles(directory, HISTORY, KEPT)
        kept = files.steps()
        assert kept[0] in (said[-1], said[-1] + 1)  # it may have been killed before it could say so
        assert min(step, KEPT) <= len(kept) <= KEPT + 1
        assert all(bytes(files.read(one)) == content(one) for one in kept)
        assert all(name.endswith(".checkpoint") for name in paths(directory))
        step = kept[0] + 1


def test_a_writer_killed_at_any_moment_leaves_whole_checkpoints(tmp_path):
    killed_writers(tmp_path, 5)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_thousand_killed_writers_leave_whole_checkpoints(tmp_path):
    killed_writers(tmp_path, 1000)
