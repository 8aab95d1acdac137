"""Processes that this host must not keep: found by what their environment says, ended, proved gone.

A mark in the environment is inherited by everything a rank starts, in whatever session or group,
and needs no process id to be known beforehand.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Optional

MARK = "TESTBED_AGENT"
"""The variable by which processes are known as those of one agent."""

_PAUSE = 0.002


def born(pid: int) -> Optional[str]:
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
    wanted = f"{MARK}={mark}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
        except OSError:
            continue  # it ended, or is another user's
        if wanted in environment.split(b"\0") and born(int(process.name)):
            found.append(int(process.name))
    return found


def end_marked(mark: str, limit: float) -> list[int]:
    """Kill the processes that carry a mark until none is left; return those left after `limit`."""
    end = time.monotonic() + limit
    while left := marked(mark):
        if time.monotonic() > end:
            return left
        for pid in left:
            send(pid, signal.SIGKILL)
        time.sleep(_PAUSE)
    return []


def end_process(pid: int, start: str, limit: float) -> bool:
    """Kill one process, known by its start; tell whether it is gone within `limit`."""
    end = time.monotonic() + limit
    while born(pid) == start:
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
