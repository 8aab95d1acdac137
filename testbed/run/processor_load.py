"""The share of this machine's processor time that programs outside the run took.

A twin's hosts share the machine with whatever else runs on it, and a busy machine makes every time
longer: the record must show it.
"""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event, Lock, Thread

_PERIOD = 1.0
"""Seconds between two looks: what a process takes after the last before its end is others."""

_LEAST = 0.2
"""Seconds of processor time of the machine from which on a share of it is known."""

_PROC = Path("/proc")


class Load:
    """A watch over the machine, from now until `end`.

    On a twin every process that can be seen is the run's: its hosts, agents and ranks. Elsewhere
    only this one is.
    """

    def __init__(self, *, on_twin: bool, proc: Path = _PROC) -> None:
        self._on_twin, self._proc = on_twin, proc
        self._lock = Lock()
        self._seen: dict[str, float] = {}
        self._busy = self._total = self._ours = 0.0
        self._last = _machine(proc)
        self._count_ours()
        self._ours = 0.0
        self._over = Event()
        self._thread = Thread(target=self._watch, name="load", daemon=True)
        self._thread.start()

    def others(self) -> float | None:
        """Return the share of the machine's time that others took since this was last asked.

        None where the machine does not provide it, or too little time has passed.
        """
        self._look()
        with self._lock:
            busy, total, ours = self._busy, self._total, self._ours
            self._busy = self._total = self._ours = 0.0
        return None if total < _LEAST else min(1.0, max(0.0, busy - ours) / total)

    def end(self) -> None:
        """Watch no longer. Safe to call twice."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_PERIOD):
            self._look()

    def _look(self) -> None:
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
        # On a twin children are among those that are seen; elsewhere they count once they ended.
        now = {"self": sum(os.times()[: 2 if self._on_twin else 4])}
        if self._on_twin:
            mine = _process(self._proc / "self")
            now |= _processes(self._proc)
            # Inside a standing twin this process is not among those that can be seen.
            now.pop(mine[0] if mine else "", None)
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


def _processes(proc: Path) -> dict[str, float]:
    found = (_process(place) for place in proc.iterdir() if place.name.isdecimal())
    return dict(one for one in found if one is not None)


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
