"""The observed delay between a command to a switch and the change of its read-back.

A read-back may come from a copy that is seconds old. A switch that has shown a change in the first
read after it is known to have no lag; until a switch has shown one, its lag is unknown.
"""

from __future__ import annotations

from testbed.bench.contracts import Applied
from testbed.fabric.change import Change
from testbed.fabric.device import State

LONGEST_LAG = 10.5
"""Seconds of lag that are assumed at most where none was observed."""
_MORE = 1.2
_LEAST = 0.01


class ReadBackLag:
    """The lag observed on one switch."""

    def __init__(self) -> None:
        self._seen: float | None = None

    @property
    def stable_after(self) -> float:
        """Return for how many seconds a read-back must be the same to count as stable."""
        return LONGEST_LAG if self._seen is None else _MORE * self._seen + _LEAST

    def record(self, seconds: float) -> None:
        """Record that a read-back changed this many seconds after the last command."""
        self._seen = max(seconds, self._seen or 0.0)

    def merge(self, other: ReadBackLag) -> None:
        """Note what was observed elsewhere on the same switch."""
        if other._seen is not None:
            self.record(other._seen)

    def forget(self) -> None:
        """Forget the observed delays, since the switch has contradicted them."""
        self._seen = None

    def compare(self, before: State, change: Change, applied: Applied) -> None:
        """Record the delay when the read-back that came with a change shows any of it."""
        ports = {*change.removes, *change.adds}
        if any(before.get(port) != applied.state.get(port) for port in ports):
            self.record(max(0.0, applied.read_back - applied.answered))
