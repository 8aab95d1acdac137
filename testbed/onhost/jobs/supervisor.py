"""The supervisor of an ordinary program on a host: it starts it and kills what it leaves.

A process of its own, whose source its rank hands to the interpreter (`_Running` in `program.py`).
It is needed because a program may start others, in sessions of their own, and all of them must be
gone when the rank has ended for any reason. Processes that the program leaves behind become
children of the supervisor (PR_SET_CHILD_SUBREAPER), which ends when none is left. It keeps the
rank's standard error open until then, so that its end tells a reader that no process is left. The
file that a program is asked to write its report to is the supervisor's for the same reason.

Standard library only, Python 3.9, and no import of its package.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Optional

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

GRACE = 0.5
"""Seconds that a program has to end its own affairs on other hosts, as mpirun does on SIGTERM."""

REPORT = "{report}"
"""What stands in a command for the path of the report, if one is wanted."""

LONGEST_REPORT = 768 << 10
"""Bytes of it that are passed on."""

_LIMIT = 4.0

_libc = ctypes.CDLL(None)


def main(line: int, held: int, command: list[str]) -> int:
    """Run a command until it ends or `line` is closed; report the result there as JSON."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    for descriptor in (line, held):
        os.set_inheritable(descriptor, False)
    place = None
    try:
        if any(REPORT in word for word in command):
            place = tempfile.mkdtemp(prefix="testbed-")
        _supervise(line, command, Path(place, "report.json") if place else None)
    except OSError as error:
        _report(line, {"failed": error.strerror})
        return 1
    finally:
        if place:
            shutil.rmtree(place, ignore_errors=True)
    return 0


def _supervise(line: int, command: list[str], report: Optional[Path]) -> None:
    """Run the command to its end; raise OSError when it cannot be started."""
    program = subprocess.Popen(
        [word.replace(REPORT, str(report)) for word in command],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_as_a_child,
    )
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    _report(line, {"pid": program.pid})
    _await_end(line, program)
    code = _end(program)
    left = _end_all()
    _report(line, {"code": code, "left": left, "report": _read(report)})


def _read(report: Optional[Path]) -> str:
    """Return what the program wrote there, if anything."""
    if report is None or not report.is_file():
        return ""
    with report.open("rb") as file:
        return file.read(LONGEST_REPORT).decode(errors="replace")


def _as_a_child() -> None:
    """Leave the signals to the program as they usually are, and have it die with its supervisor."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _await_end(line: int, program: subprocess.Popen[bytes]) -> None:
    """Wait until the program has ended, or the rank is gone or wants it to end."""
    pidfd = os.pidfd_open(program.pid)
    poll = select.poll()
    poll.register(line, select.POLLIN)
    poll.register(pidfd, select.POLLIN)
    poll.poll()
    os.close(pidfd)


def _end(program: subprocess.Popen[bytes]) -> int:
    """Return the program's exit code, negative for a signal; one that still runs is ended."""
    if program.poll() is None:
        _signal_group(program.pid, signal.SIGTERM)
        try:
            program.wait(GRACE)
        except subprocess.TimeoutExpired:
            _signal_group(program.pid, signal.SIGKILL)
    return program.wait()


def _end_all() -> int:
    """Kill everything that the program left behind; return how many of it survived."""
    limit = time.monotonic() + _LIMIT
    while children := _children():
        for child in children:
            with suppress(OSError):  # gone meanwhile, or of another user
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return 0
        if time.monotonic() > limit:
            return len(children)
        time.sleep(1e-3)
    return 0


def _children() -> list[int]:
    """Return the processes whose parent this one is, by the kernel's own list of all."""
    mine, found = str(os.getpid()), []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = status.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue  # gone meanwhile
        if parent == mine:
            found.append(int(status.parent.name))
    return found


def _signal_group(group: int, number: int) -> None:
    with suppress(OSError):
        os.killpg(group, number)


def _report(line: int, message: dict[str, Any]) -> None:
    with suppress(OSError):  # the rank is gone
        os.write(line, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
