"""Instrument locks between real processes."""

import os
import stat
import subprocess
import sys
import threading
import uuid
from contextlib import contextmanager

import pytest

from testbed.errors import BusyError, LabError
from testbed.record.locks import SHARED, InstrumentLock, LivenessLock, is_alive, liveness_file

HOLD = """
import sys
from testbed.record.locks import InstrumentLock
with InstrumentLock("ocs", sys.argv[1], "first-run"):
    print("held", flush=True)
    sys.stdin.read()
"""
NOBODY = 65534


@pytest.fixture
def resource():
    """An instrument that no other test and no other user has."""
    name = f"TCPIP::{uuid.uuid4()}::5025::SOCKET"
    yield name
    lock_file(name).unlink(missing_ok=True)


def lock_file(resource):
    return SHARED / (resource.replace(":", "_") + ".lock")


@contextmanager
def holder(resource, **options):
    """Run a process that holds the lock until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, resource],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_refused_lock_names_the_run_and_process_that_hold_it(resource):
    with holder(resource) as process:
        with pytest.raises(BusyError) as refusal:
            InstrumentLock("ocs", resource, "second-run")
        said = str(refusal.value)
        assert "ocs is held by run first-run" in said
        assert f"process {process.pid}" in said
        process.communicate()
    with InstrumentLock("ocs", resource, "second-run"):
        pass


def test_the_lock_of_a_killed_process_ends_at_once(resource):
    with holder(resource) as process:
        process.kill()
        process.wait()
        assert lock_file(resource).exists()
        with InstrumentLock("ocs", resource, "second-run"):
            assert "second-run" in lock_file(resource).read_text()
    assert not lock_file(resource).exists()


def test_releasing_an_instrument_lock_removes_its_file_and_may_be_repeated(resource):
    lock = InstrumentLock("ocs", resource, "run")
    assert lock_file(resource).exists()
    lock.release()
    lock.release()
    assert not lock_file(resource).exists()


def test_locks_of_two_instruments_are_independent(resource):
    with InstrumentLock("a", resource, "run"), InstrumentLock("b", resource + "2", "run"):
        assert lock_file(resource) != lock_file(resource + "2")


def test_a_child_process_does_not_inherit_the_lock_of_an_instrument(resource):
    with InstrumentLock("ocs", resource, "run"):
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
    try:
        InstrumentLock("ocs", resource, "run").release()
    finally:
        child.communicate()


def test_releasing_a_lock_whose_file_was_removed_keeps_the_next_file(resource):
    first = InstrumentLock("ocs", resource, "first-run")
    lock_file(resource).unlink()
    with InstrumentLock("ocs", resource, "second-run"):
        first.release()
        with pytest.raises(BusyError, match="second-run"):
            InstrumentLock("ocs", resource, "third-run")


def test_threads_that_take_turns_never_hold_the_lock_together(resource):
    turns, wrong = [], []
    gate = threading.Barrier(3)

    def take_turns(me):
        gate.wait()
        while len(turns) < 600:
            try:
                lock = InstrumentLock("ocs", resource, f"run-{me}")
            except BusyError:
                continue
            turns.append(me)
            named = lock_file(resource).read_text() if lock_file(resource).exists() else "nobody"
            if f"run-{me}" not in named:
                wrong.append(named)
            lock.release()

    threads = [threading.Thread(target=take_turns, args=[n]) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert not lock_file(resource).exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users")
def test_another_user_is_refused_and_locks_after_a_killed_holder(resource):
    with holder(resource, umask=0o077) as process:
        other = take_as_nobody(resource)
        assert "BusyError" in other.stderr
        assert "held by run first-run" in other.stderr
        process.kill()
        process.wait()
        assert take_as_nobody(resource).returncode == 0
    with InstrumentLock("ocs", resource, "run"):
        pass


def take_as_nobody(resource):
    """Take the lock and release it, as another user would."""
    script = f"import os; os.setuid({NOBODY})\n" + HOLD
    return subprocess.run(
        [sys.executable, "-c", "import testbed.record.locks\n" + script, resource],
        input="",
        capture_output=True,
        text=True,
    )


def test_a_lock_that_cannot_be_made_is_a_lab_error(resource):
    with pytest.raises(LabError, match=r"locking ocs with .* failed: File name too long"):
        InstrumentLock("ocs", "x" * 300, "run")


def test_a_link_or_a_fifo_in_place_of_a_lock_is_refused(resource, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    with InstrumentLock("ocs", "x" + resource, "run"):  # which makes the directory
        lock_file(resource).symlink_to(precious)
    with pytest.raises(LabError, match=r"locking ocs with .* failed: Too many levels of symbolic"):
        InstrumentLock("ocs", resource, "run")
    assert precious.read_text() == "precious"
    lock_file(resource).unlink()
    os.mkfifo(lock_file(resource))
    with pytest.raises(LabError, match=r"locking ocs with .* failed: it is not a regular file"):
        InstrumentLock("ocs", resource, "run")


def test_a_link_in_place_of_a_liveness_file_is_not_followed(tmp_path):
    token = uuid.uuid4().hex
    sign = LivenessLock(token)
    try:
        assert is_alive(token)
        elsewhere = tmp_path / "locked"
        liveness_file(token).rename(elsewhere)
        liveness_file(token).symlink_to(elsewhere)
        assert is_alive(token) is None
    finally:
        sign.release()


def test_every_user_of_the_machine_may_lock_an_instrument(resource):
    with InstrumentLock("ocs", resource, "run"):
        assert SHARED.stat().st_mode & 0o1777 == 0o1777


def test_the_directory_of_liveness_files_is_sticky():
    sign = LivenessLock(token := uuid.uuid4().hex)
    try:
        mode = liveness_file(token).parent.stat().st_mode
        assert (mode & 0o777, bool(mode & stat.S_ISVTX)) == (0o777, True)
    finally:
        sign.release()
    assert is_alive(token) is None
