"""Detect disturbances on this machine: pauses of this process, and load by other programs.

A pause means that this process was stopped, was not scheduled, or that the machine slept. Meanwhile
no event of the lab is handled, and hosts give up a silent controller: a trial during a pause would
measure the pause.

A twin's hosts share the machine with whatever else runs on it, and a busy machine makes every time
longer: the record must show which share of the processor time programs outside the run took.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread

from testbed.clock import boot_time
from testbed.errors import TestbedError
from testbed.record.log import EventLog

_LEAST_PAUSE = 1.0
"""Seconds from which on a pause is one."""

_PAUSE_PERIOD = 0.1

_LOAD_PERIOD = 1.0
"""Seconds between two looks: what a process takes after the last before its end is others."""

_LEAST_LOAD = 0.2
"""Seconds of processor time of the machine from which on a share of it is known."""

_PROC = Path("/proc")


class _Watch(ABC):
    """A look that a thread of its own repeats, from now until `end`."""

    def __init__(self, name: str, period: float) -> None:
        self._lock = Lock()
        self._period = period
        self._over = Event()
        self._thread = Thread(target=self._watch, name=name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop the detection; no pause is logged after this. Safe to call twice."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(self._period):
            self._look()

    @abstractmethod
    def _look(self) -> None:
        """Note what has happened since the last look."""


class PauseDetector(_Watch):
    """Detects pauses of this process with a thread that only reads the clock."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._seen = boot_time()
        self._longest = 0.0
        super().__init__("pauses", _PAUSE_PERIOD)

    def longest(self) -> float:
        """Return the seconds of the longest pause since the last call; 0 if there was none."""
        self._look()
        with self._lock:
            longest, self._longest = self._longest, 0.0
        return longest

    def _look(self) -> None:
        """Note how long ago the last look was, if that is long."""
        with self._lock:
            at = boot_time()
            pause, self._seen = at - self._seen, at
            if pause < _LEAST_PAUSE:
                return
            self._longest = max(self._longest, pause)
        text = f"stood still for {pause:.1f} s: stopped, starved of the machine, or asleep with it"
        with suppress(TestbedError):  # a full disk is reported by what must keep a record
            self._log.append("note", "this process", text=text)


class Load(_Watch):
    """Measures the share of this machine's processor time that other programs use.

    `twin` is the /proc directory of a twin, whose processes all count as the run's: its hosts,
    agents and ranks. Without a twin only this process does.
    """

    def __init__(self, twin: Path | None = None, proc: Path = _PROC) -> None:
        self._on_twin, self._proc = twin is not None, twin or proc
        self._seen: dict[str, float] = {}
        self._busy = self._total = self._ours = 0.0
        self._last = self._second = _machine(self._proc)
        self._peak = 0.0
        self.busiest = 0.0
        """Share that all programs took in the busiest second before the last answer."""
        if self._last is not None:
            self._count_ours()
        self._ours = 0.0
        super().__init__("load", _LOAD_PERIOD)

    def others(self) -> float | None:
        """Return the share of processor time used by other programs since the last call.

        None where the machine does not report it, or too little time has passed.
        """
        self._count()
        with self._lock:
            self.busiest, self._peak = self._peak, 0.0
            busy, total, ours = self._busy, self._total, self._ours
            self._busy = self._total = self._ours = 0.0
        return None if total < _LEAST_LOAD else min(1.0, max(0.0, busy - ours) / total)

    def _look(self) -> None:
        """Count once a second, and keep how busy the busiest was."""
        self._count()
        with self._lock:
            now, before = self._last, self._second
            if now is not None and before is not None and now[1] > before[1]:
                self._peak = max(self._peak, (now[0] - before[0]) / (now[1] - before[1]))
            self._second = now

    def _count(self) -> None:
        with self._lock:
            now, before = _machine(self._proc), self._last
            if now is None or before is None:
                return
            self._count_ours()
            self._busy += now[0] - before[0]
            self._total += now[1] - before[1]
            self._last = now

    def _count_ours(self) -> None:
        """Add what our processes took since the last look."""
        # Children count once they have ended.
        now = {"self": sum(os.times()[:4])}
        if self._on_twin:
            found = (_process(path) for path in self._proc.iterdir() if path.name.isdecimal())
            now |= dict(process for process in found if process is not None)
        self._ours += sum(max(0.0, t - self._seen.get(key, 0.0)) for key, t in now.items())
        self._seen = now


def _machine(proc: Path) -> tuple[float, float] | None:
    """Return the seconds that all processors were busy, and those that they had; None elsewhere."""
    try:
        line = (proc / "stat").read_text().splitlines()[0].split()
        user, nice, system, idle, waiting, *interrupts = map(int, line[1:9])
    except (OSError, ValueError, IndexError):
        return None
    busy = user + nice + system + sum(interrupts)
    return busy / _ticks(), (busy + idle + waiting) / _ticks()


def _process(place: Path) -> tuple[str, float] | None:
    """Return which process it is, pid and start, and the seconds that it took; None if it is gone.

    What its children took counts when they are seen themselves.
    """
    try:
        pid, rest = (place / "stat").read_text().split(" ", 1)
        fields = rest.rpartition(")")[2].split()
        return f"{pid}@{fields[19]}", (int(fields[11]) + int(fields[12])) / _ticks()
    except (OSError, ValueError, IndexError):
        return None


def _ticks() -> int:
    return os.sysconf("SC_CLK_TCK")
