"""Processes that must not stay on this host: found by a mark in their environment, ended, verified.

A mark in the environment is inherited by everything a rank starts, in whatever session or group,
and needs no process id to be known beforehand.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Callable, Optional

MARK = "TESTBED_AGENT"
"""The variable by which processes are known as those of one agent: run/host/id-start."""

_PAUSE = 0.002


def start_time(pid: int) -> Optional[str]:
    """Return when a process started, in the kernel's ticks; None when it is gone or a zombie.

    Together with the id it names one process for as long as the machine is up.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def marked(mark: str) -> list[int]:
    """Return the processes that carry a mark, as far as this user may look."""
    return [pid for pid, found in _marks() if found == mark]


def strays(run: str) -> list[int]:
    """Return the processes of a run that no agent here has started.

    A launcher on another host starts some: they carry the mark of the agent there. The mark ends
    with the id and the start of its agent.
    """
    found = []
    for pid, mark in _marks():
        of, _, agent = mark.partition("/")
        number, _, start = agent.rpartition("/")[2].partition("-")
        if of == run and not (number.isdecimal() and start_time(int(number)) == start):
            found.append(pid)
    return found


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


def end_marked(mark: str, limit: float) -> list[int]:
    """Kill the processes that carry a mark until none is left; return those left after `limit`."""
    return _end_all(lambda: marked(mark), limit)


def end_strays(run: str, limit: float) -> list[int]:
    """Kill the strays of a run, likewise."""
    return _end_all(lambda: strays(run), limit)


def _end_all(look: Callable[[], list[int]], limit: float) -> list[int]:
    end = time.monotonic() + limit
    while left := look():
        if time.monotonic() > end:
            return left
        for pid in left:
            send(pid, signal.SIGKILL)
        time.sleep(_PAUSE)
    return []


def end_process(pid: int, start: str, limit: float) -> bool:
    """Kill one process, known by its start; tell whether it is gone within `limit`."""
    end = time.monotonic() + limit
    while start_time(pid) == start:
        if time.monotonic() > end:
            return False
        send(pid, signal.SIGKILL)
        time.sleep(_PAUSE)
    return True


def send(pid: int, number: int) -> None:
    """Send a signal; a process that has ended is fine."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
