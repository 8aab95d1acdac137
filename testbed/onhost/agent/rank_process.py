"""Rank processes, each in a process group of its own, which never outlive the agent."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from typing import Optional

from ..frames import Decoder, Message, encode
from .cpu_limits import CpuQuota, CpuThrottle
from .processes import state_of

_PR_SET_PDEATHSIG = 1
_KILL_LIMIT = 5.0
_LONGEST_LINE = 4096
_SIGNAL_LIMIT = 1.0
_SEND_LIMIT = 1.0
_EFFECT: dict[int, str] = {signal.SIGSTOP: "T", signal.SIGKILL: "ZX"}
"""The states that signals lead to, which on a busy host takes until the process is scheduled."""

_libc = ctypes.CDLL(None)


def die_with(agent: int) -> None:
    """Make the kernel kill this process when the agent dies, even if the rank is stopped."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != agent:
        os._exit(1)  # it went before we asked


class RankProcess:
    """One rank's process: its control line, its standard error, and its pidfd."""

    def __init__(self, slot: int, bundle: int, environment: dict[str, str]) -> None:
        """Start a rank from the bundle behind the descriptor `bundle`.

        `slot` is its place on this host; which rank of the job it is, it learns later.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.slot = slot
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, f"/proc/self/fd/{bundle}", "--control", str(theirs.fileno())],
                pass_fds=(bundle, theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**os.environ, **environment},
                start_new_session=True,
                preexec_fn=partial(die_with, os.getpid()),
            )
        assert self._process.stderr is not None
        self.line = ours
        self.line.setblocking(False)
        self.errors = self._process.stderr.fileno()
        os.set_blocking(self.errors, False)
        self.pidfd = os.pidfd_open(self.pid)
        self._decoder = Decoder()
        self._text = b""
        self.last_heard = 0.0
        """When it last sent a message, or until when its start may take; 0 before `configure`."""
        self.is_missed = False
        """It has been silent for too long, which has been reported."""
        self.computed: Optional[float] = None
        """Its processor time when its silence became too long, if it was runnable then."""
        self.stop: Optional[int] = None
        """The journal's entry of a stop that is not undone."""
        self.throttle: Optional[CpuThrottle] = None
        self.quota: Optional[tuple[int, CpuQuota]] = None
        """The journal's entry of a quota, and the quota."""
        self.delay: Optional[tuple[int, float]] = None
        """The number and the instant of a request to delay it that it has not answered."""

    @property
    def pid(self) -> int:
        """Return the process's id, which is also its group's."""
        return self._process.pid

    def send(self, message: Message) -> None:
        """Send one message to the rank; kill a rank that does not read its messages."""
        self.line.settimeout(_SEND_LIMIT)
        try:
            self.line.sendall(encode(message))
        except socket.timeout:  # TimeoutError is another class before Python 3.10
            # It stands still, and half a message would garble all that follow.
            self.signal(signal.SIGKILL)
        except OSError:
            return  # its end is reported by `pidfd`
        finally:
            self.line.setblocking(False)

    def messages(self) -> list[Message]:
        """Return all messages that have arrived from the rank."""
        messages: list[Message] = []
        try:
            while data := self.line.recv(1 << 16):
                messages += self._decoder.feed(data)
        except OSError:
            return messages  # nothing more for now, or the rank is gone
        return messages

    def error_lines(self) -> list[str]:
        """Return the complete lines that have arrived on the rank's standard error."""
        try:
            data = os.read(self.errors, 1 << 16)
        except BlockingIOError:
            return []
        *lines, self._text = (self._text + data).split(b"\n")
        if len(self._text) > _LONGEST_LINE or not data:
            lines, self._text = [*lines, self._text], b""
        return [line.decode(errors="replace") for line in lines if line]

    def signal(self, number: int) -> None:
        """Send a signal to the rank's process group; do nothing if it has ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def state_after(self, number: int) -> str:
        """Return the process state after a signal, once it has changed; after 1 s at the latest."""
        limit = time.monotonic() + _SIGNAL_LIMIT
        while (state := state_of(self.pid)) not in _EFFECT.get(number, state):
            if time.monotonic() > limit:
                break
            time.sleep(1e-4)
        return state

    def exit_code(self) -> Optional[int]:
        """Return the exit code, negative for a signal, or None while the rank runs."""
        return self._process.poll()

    def end(self) -> bool:
        """Kill the rank's process group and wait; return whether it is gone."""
        self.signal(signal.SIGKILL)
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        gone = bool(poll.poll(_KILL_LIMIT * 1e3)) and self._process.poll() is not None
        gone = gone and self._is_silent()
        os.close(self.pidfd)
        self.line.close()
        assert self._process.stderr is not None
        self._process.stderr.close()
        return gone

    def _is_silent(self) -> bool:
        """Tell whether no process holds the rank's standard error, as a program's supervisor does.

        It closes it when nothing is left of the program; that may take a moment.
        """
        limit = time.monotonic() + _KILL_LIMIT
        poll = select.poll()
        poll.register(self.errors, select.POLLIN)
        while poll.poll(max(0.0, limit - time.monotonic()) * 1e3):
            if not os.read(self.errors, 1 << 16):
                return True
        return False
