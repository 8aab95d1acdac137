"""Limit the CPU time of a rank: by stopping and continuing it in turn, or by a CPU quota."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path
from typing import Callable

_CGROUPS = Path("/sys/fs/cgroup")


class CpuThrottle:
    """Throttles a process: stops and continues it in turn.

    The process runs a `share` of every `period` seconds; `send` sends a signal to it.
    """

    def __init__(
        self, send: Callable[[int], None], share: float, period: float, now: float
    ) -> None:
        self._send = send
        self._seconds = {signal.SIGSTOP: period * (1 - share), signal.SIGCONT: period * share}
        self._last = signal.SIGSTOP
        self._due = now + self._seconds[self._last]

    def work(self, now: float) -> None:
        """Send the stop or continue signal that is due."""
        if now >= self._due:
            turns = self._last == signal.SIGSTOP
            self._last = signal.SIGCONT if turns else signal.SIGSTOP
            self._send(self._last)
            self._due = now + self._seconds[self._last]


def cgroup_of(pid: int) -> str:
    """Return the name of the cgroup for the CPU quota of a process."""
    return f"testbed-{pid}"


def remove_cgroup(name: str) -> None:
    """Remove the cgroup of a CPU quota, in which no process runs any more, if it still exists.

    Raise OSError when a process still runs in it.
    """
    with suppress(FileNotFoundError):
        (_CGROUPS / name).rmdir()


class CpuQuota:
    """A cgroup with one process, which gets `share` of one core in each `period`."""

    def __init__(self, pid: int, share: float, period: float) -> None:
        """Make the group and move the process there; OSError where that is not permitted."""
        self._pid = pid
        line = Path(f"/proc/{pid}/cgroup").read_text().splitlines()[-1]
        self._home = _CGROUPS / line.partition("::")[2].lstrip("/")
        self._group = _CGROUPS / cgroup_of(pid)
        if not (_CGROUPS / "cgroup.controllers").exists():
            raise OSError("this host has no cgroups of version 2, so no CPU quota")
        self._group.mkdir()
        try:
            micro = round(period * 1e6)
            (self._group / "cpu.max").write_text(f"{round(micro * share)} {micro}")
            (self._group / "cgroup.procs").write_text(str(pid))
        except OSError:
            self._group.rmdir()
            raise

    def end(self) -> None:
        """Move the process back to its former cgroup and remove this one."""
        if Path(f"/proc/{self._pid}").exists():
            (self._home / "cgroup.procs").write_text(str(self._pid))
        self._group.rmdir()
