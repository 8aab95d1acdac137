"""How late the read-back of a switch follows what the switch was told, as far as that was seen.

A read-back may come from a copy that is seconds old. A switch that has shown a change in the first
read after it is known to follow at once; of one that has shown nothing yet, nothing is known.
"""

from __future__ import annotations

from testbed.bench.contracts import Applied
from testbed.fabric.change import Change
from testbed.fabric.device import State

LONGEST_LAG = 10.5
"""Seconds by which the read-back of a switch is supposed to be late at most, where nothing of it
was seen."""
_MORE = 1.2
_LEAST = 0.01


class ReadBackLag:
    """What was seen of one switch's read-back."""

    def __init__(self) -> None:
        self._seen: float | None = None

    @property
    def patience(self) -> float:
        """Return for how many seconds a read-back must stay the same until it is believed."""
        return LONGEST_LAG if self._seen is None else _MORE * self._seen + _LEAST

    def saw(self, seconds: float) -> None:
        """Note that a read-back followed, or changed by itself, so long after the last command."""
        self._seen = max(seconds, self._seen or 0.0)

    def doubt(self) -> None:
        """Forget what was seen, since the switch has contradicted it."""
        self._seen = None

    def compare(self, before: State, change: Change, applied: Applied) -> None:
        """Note when the read-back that came with a change shows anything of it."""
        ports = {*change.removes, *change.adds}
        if any(before.get(port) != applied.state.get(port) for port in ports):
            self.saw(max(0.0, applied.read_back - applied.answered))
