"""Let a rank run only part of the time: stopped and continued in turn, or on a CPU quota."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path
from typing import Callable

_CGROUPS = Path("/sys/fs/cgroup")


class CpuThrottle:
    """Continue a stopped process and stop it again, in turn.

    `period` is in seconds, of which it runs `share`; `send` sends it a signal.
    """

    def __init__(
        self, send: Callable[[int], None], share: float, period: float, now: float
    ) -> None:
        self._send = send
        self._seconds = {signal.SIGSTOP: period * (1 - share), signal.SIGCONT: period * share}
        self._last = signal.SIGSTOP
        self._due = now + self._seconds[self._last]

    def work(self, now: float) -> None:
        """Send what is due."""
        if now >= self._due:
            turns = self._last == signal.SIGSTOP
            self._last = signal.SIGCONT if turns else signal.SIGSTOP
            self._send(self._last)
            self._due = now + self._seconds[self._last]


def cgroup_of(pid: int) -> str:
    """Return the name of the cgroup that a process gets for its quota."""
    return f"testbed-{pid}"


def remove_cgroup(name: str) -> None:
    """Remove a cgroup that a quota left, in which nothing runs any more; one that is gone is fine.

    Raise OSError when something still does.
    """
    with suppress(FileNotFoundError):
        (_CGROUPS / name).rmdir()


class CpuQuota:
    """A cgroup of its own for one process, which gets `share` of one core in each `period`."""

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
        """Move the process back and remove the group; a process that has ended left by itself."""
        if Path(f"/proc/{self._pid}").exists():
            (self._home / "cgroup.procs").write_text(str(self._pid))
        self._group.rmdir()
