"""A twin from outside: start it, run a command in it, stop it."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.clock import Deadline
from testbed.errors import LabError, TestbedError, UsageError
from testbed.record.claim_registry import PROCESS_VARIABLE
from testbed.twin.machine import IDENTITY_VARIABLE, TWIN_VARIABLE, kill, process_start
from testbed.twin.namespaces import passing_on
from testbed.twin.signals import ENDING, FORWARDED

_START_LIMIT = 30.0
_COMMAND = ["-m", "testbed.cli"]


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A running twin: the process that keeps it, and the id of its first process."""

    name: str
    launcher: int
    server: int

    @property
    def identity(self) -> str:
        """Return a unique identity of this twin, different from later twins of the same name."""
        start = str(process_start(self.launcher))
        return "/".join([socket.gethostname(), _boot(), pid_space(), str(self.launcher), start])

    def run(self, command: Sequence[str], *, quiet: bool = False) -> int:
        """Run a command in the twin with this process's terminal; return its exit code.

        Where this user may, it preempts the processes of the twin's hosts. With `quiet` its
        standard output is discarded. Signals to this process are forwarded to the command. Blocks
        until the command ends; from then on signals are blocked, so that this process returns the
        command's exit code.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        way = ["run", str(self.server)]
        process = self._join(way, command, own_session=True, quiet=quiet)
        with _handling(FORWARDED, passing_on(process.pid)):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            code = process.wait()
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        return code if code >= 0 else 128 - code

    def shell(self, command: Sequence[str], host: str = "") -> int:
        """Run an interactive command in the twin, or on one of its hosts."""
        way = ["enter", str(self.server), host] if host else ["join", str(self.server)]
        process = self._join(way, command, own_session=False)
        with _handling([signal.SIGINT], signal.SIG_IGN):  # Ctrl-C is for the command alone
            return process.wait()

    def _join(
        self, way: Sequence[str], command: Sequence[str], *, own_session: bool, quiet: bool = False
    ) -> subprocess.Popen[bytes]:
        try:
            here = str(Path.cwd())
        except FileNotFoundError:
            hint = "go to one that is there"
            raise UsageError("the working directory no longer exists", hint=hint) from None
        me = str(os.getpid())
        arguments = [way[0], me, *way[1:], here, *command]
        known_as = {TWIN_VARIABLE: self.name, IDENTITY_VARIABLE: self.identity}
        known_as[PROCESS_VARIABLE] = me
        return _launch(arguments, known_as, own_session=own_session, quiet=quiet)

    def commands(self) -> dict[int, str]:
        """Return the commands of the testbed that run in the twin, by process."""
        mark = f"{IDENTITY_VARIABLE}={self.identity}\0".encode()
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if words[1:3] == _COMMAND and mark in (process / "environ").read_bytes():
                    found[int(process.name)] = shlex.join(["testbed", *words[3:-1]])
            except OSError:
                continue  # it has ended, or is another user's
        return found

    def end(self) -> None:
        """Stop the twin and everything in it; safe to call twice."""
        with suppress(ProcessLookupError):
            kill(self.launcher, _START_LIMIT)


def is_gone(identity: str) -> bool:
    """Return whether a twin is known to be gone; False also where that is not visible."""
    try:
        node, boot, space, launcher, start = identity.split("/")
    except ValueError:
        return False
    if node != socket.gethostname():
        return False
    return boot != _boot() or (space == pid_space() and process_start(int(launcher)) != start)


def pid_space() -> str:
    """Return the identity of the PID namespace of this process."""
    return str(Path("/proc/self/ns/pid").readlink())


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start(
    name: str, lab_file: Path, overrides: Sequence[str], *, log: Path | None = None
) -> Sandbox:
    """Build the twin of a lab and return it when all its hosts answer.

    The twin dies with this process, unless it has a `log` for its errors; then it stays until
    `end`. Raise LabError with the reason if this machine cannot run a twin.
    """
    read, write = os.pipe()
    parent = os.getpid() if log is None else 0
    arguments = ["new", str(parent), name, str(write), str(lab_file.resolve()), *overrides]
    with _holding_signals():
        process = _launch(arguments, {TWIN_VARIABLE: name}, pass_fds=(write,), log=log)
    try:
        os.close(write)
        return Sandbox(name, process.pid, _server_that_is_ready(read, lab_file))
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        os.close(read)  # not before the launcher has ended: it would report a broken pipe


def _server_that_is_ready(read: int, lab_file: Path) -> int:
    """Wait until the launcher says that the twin is ready; return the twin's first process."""
    server = 0
    for report in _reports(read, Deadline.after(_START_LIMIT)):
        if "pid" in report:
            server = report["pid"]
        elif "ready" in report:
            return server
        else:
            raise _refusal(report)
    raise LabError(
        f"the twin of {lab_file} did not start within {_START_LIMIT:.0f} s",
        hint="run `testbed doctor`",
    )


def _launch(
    arguments: Sequence[str],
    known_as: Mapping[str, str],
    *,
    pass_fds: Sequence[int] = (),
    own_session: bool = True,
    quiet: bool = False,
    log: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start the launcher; in a session of its own, Ctrl-C reaches its command once, through us."""
    command = [sys.executable, "-m", "testbed.twin.launch", *arguments]
    environment = {**os.environ, **known_as}
    with (log or Path(os.devnull)).open("ab") as sink:
        return subprocess.Popen(
            command,
            env=environment,
            start_new_session=own_session,
            pass_fds=pass_fds,
            stdin=subprocess.DEVNULL if log else None,
            stdout=sink if log or quiet else None,
            stderr=sink if log else None,
        )


def _reports(read: int, deadline: Deadline) -> Iterator[dict[str, Any]]:
    """Yield the lines of JSON that the launcher writes until it closes its end or time is up."""
    buffer = b""
    while select.select([read], [], [], deadline.left)[0]:
        piece = os.read(read, 65536)
        if not piece:
            return
        *lines, buffer = (buffer + piece).split(b"\n")
        yield from (json.loads(line) for line in lines)


def _refusal(report: dict[str, Any]) -> TestbedError:
    error = TestbedError(f"the twin did not start: {report['error']}", hint=report["hint"])
    error.exit_code = report["exit"]
    return error


@contextmanager
def _holding_signals() -> Iterator[None]:
    """Let signals wait; a process that is started inside holds them too, until it is ready."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _handling(numbers: Iterable[int], handler: Any) -> Iterator[None]:
    """Handle signals in another way for a while."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
