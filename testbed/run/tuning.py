"""The settings of the twin around a run, which its arms may change and which are put back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from testbed.clock import Deadline
from testbed.record.journal import Journal
from testbed.run.cleanup import Cleanup
from testbed.run.far_ends import FarEndDoor
from testbed.schema import Lab

Settings = Mapping[str, Any]
"""`settle` by switch, `loss_of_signal` and `link_up` in seconds, `sensitivity` in dBm."""

_LIMIT = 10.0


class TwinDoor(FarEndDoor, Protocol):
    """The twin's own door, as far as a run inside the twin uses it."""

    def settings_of(self, lab: Lab) -> Settings:
        """Return what the twin of a lab is to be tuned to."""

    def tuning(self) -> Settings:
        """Return what the twin is tuned to now."""

    def tune(self, settings: Settings) -> None:
        """Tune the running twin."""


class Tuning:
    """What a run has tuned its twin to; as it was before at the end, or after `recover`."""

    def __init__(self, twin: TwinDoor, journal: Journal, cleanup: Cleanup) -> None:
        self._twin = twin
        self._journal = journal
        self._cleanup = cleanup
        self._present = twin.tuning()
        self._is_promised = False

    @property
    def settle(self) -> float:
        """Return the seconds that the slowest switch of the twin settles."""
        seconds: Mapping[str, float] = self._present["settle"]
        return max(seconds.values(), default=0.0)

    def follow(self, lab: Lab) -> None:
        """Bring the twin in line with a lab whose `twin` settings an arm has changed."""
        wanted = self._twin.settings_of(lab)
        if wanted == self._present:
            return
        if not self._is_promised:
            self._promise(self._present)
        self._twin.tune(wanted)
        self._present = wanted

    def _promise(self, found: Settings) -> None:
        entry = self._journal.promise("tuning", settings=found)
        self._is_promised = True
        self._cleanup.push("settings of the twin", self._undo(found, entry), _LIMIT)

    def _undo(self, found: Settings, entry: int) -> Callable[[Deadline], None]:
        def undo(_: Deadline) -> None:
            self._twin.tune(found)
            self._journal.settle(entry)

        return undo
