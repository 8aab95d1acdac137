"""Find processes by a mark in their environment, kill them and verify that they are gone.

The mark in the environment is inherited by every process that a rank starts, in whatever session or
group, and needs no process id to be known beforehand.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Optional

MARK = "TESTBED_AGENT"
"""The variable by which processes are known as those of one agent: run/host/id-start."""

_PAUSE = 0.002


def start_time(pid: int) -> Optional[str]:
    """Return when a process started, in the kernel's ticks; None when it is gone or a zombie.

    Process id and start time together identify a process until the next boot.
    """
    state, start = _stat(pid)
    return None if state in "ZX" else start


def state_of(pid: int, start: Optional[str] = None) -> str:
    """Return the kernel's state letter of a process, such as R, S, T, Z; X when it is gone.

    With `start`, only the process with that start time counts.
    """
    state, started = _stat(pid)
    return state if start in (None, started) else "X"


def _stat(pid: int) -> tuple[str, str]:
    """Return the state of a process and when it started (proc_pid_stat(5), fields 3 and 22)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "X", ""
    return fields[0], fields[19]


def seconds_computed(pid: int) -> Optional[float]:
    """Return the processor time of a process, where one of its threads is runnable; else None.

    Runnable is state R of proc_pid_stat(5): the thread has a processor, or waits for one.
    """
    try:
        tasks = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/stat")]
        whole = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    if not any(task.rpartition(")")[2].split()[0] == "R" for task in tasks):
        return None
    user, system = whole.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def end_marked(mark: str, limit: float) -> list[int]:
    """Kill all processes that an agent has started, and strays of its run.

    Strays are started by a launcher on another host: they carry the mark of an agent that does not
    run here. Return those left after `limit` seconds, as far as this user may see them.
    """
    run = mark.partition("/")[0]
    end = time.monotonic() + limit
    while left := [pid for pid, one in _marks() if one == mark or _is_stray(one, run)]:
        if time.monotonic() > end:
            return left
        for pid in left:
            send(pid, signal.SIGKILL)
        time.sleep(_PAUSE)
    return []


def _is_stray(mark: str, run: str) -> bool:
    """Tell whether a mark is of a run, but of no agent here; it ends with its agent's id-start."""
    of, _, agent = mark.partition("/")
    number, _, start = agent.rpartition("/")[2].partition("-")
    return of == run and not (number.isdecimal() and start_time(int(number)) == start)


def _marks() -> Iterator[tuple[int, str]]:
    """Yield every process that carries a mark, and that."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended, or is another user's
        name = f"{MARK}=".encode()
        found = [one[len(name) :] for one in environment if one.startswith(name)]
        if found and start_time(int(process.name)):
            yield int(process.name), found[0].decode(errors="replace")


def end_process(pid: int, start: str, limit: float) -> bool:
    """Kill one process, identified by id and start time; return whether it is gone in time."""
    end = time.monotonic() + limit
    while start_time(pid) == start:
        if time.monotonic() > end:
            return False
        send(pid, signal.SIGKILL)
        time.sleep(_PAUSE)
    return True


def send(pid: int, number: int) -> None:
    """Send a signal to a process; do nothing if it has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
