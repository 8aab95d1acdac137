"""Fixtures of several packages: a disk and a pipe that are full, and a host that answers SSH."""

import os
import resource
import select
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@pytest.fixture
def full_disk():
    """Return a context in which no file of this process can grow."""

    @contextmanager
    def full():
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return full


@pytest.fixture
def full_pipe():
    """Return both ends of a pipe that is full, the second as a stream."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with suppress(BlockingIOError):
        while os.write(theirs, b"-" * select.PIPE_BUF):
            pass
    os.set_blocking(theirs, True)
    with os.fdopen(theirs, "w", buffering=1) as stream, os.fdopen(ours) as reader:
        yield reader, stream


@pytest.fixture
def left_pipe():
    """Return a stream whose reader has gone."""
    ours, theirs = os.pipe()
    os.close(ours)
    stream = os.fdopen(theirs, "w", buffering=1)
    yield stream
    with suppress(BrokenPipeError):
        stream.close()


class SshHost:
    """This machine, as whoever has `home` for a home directory may log in on `port`."""

    def __init__(self, home):
        keys = home / ".ssh"
        keys.mkdir()
        serve = [sys.executable, Path(__file__).parent / "ssh_host.py", keys]
        self._server = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
        self._home = str(home)
        self.keys = keys
        self.port = int(self._server.stdout.readline())

    @contextmanager
    def at_home(self):
        """Give the context this home directory."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOME", self._home)
            patch.delenv("SSH_AUTH_SOCK", raising=False)
            yield

    @contextmanager
    def stopped(self):
        """Have the host take nothing that is sent to it, although it is there."""
        self._server.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._server.send_signal(signal.SIGCONT)

    def close(self):
        with self._server:
            self._server.kill()


@pytest.fixture(scope="session")
def ssh_host(tmp_path_factory):
    host = SshHost(tmp_path_factory.mktemp("home"))
    yield host
    host.close()
