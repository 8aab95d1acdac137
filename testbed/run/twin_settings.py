"""The settings of the twin around a run, which its arms may change and which are put back.

Whatever runs in a twin needs its settings to stay: each run leases a part of them that is its own,
and a run that changes them leases them as a whole, so that it has no other beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from testbed.bench.permission import Guard
from testbed.clock import Deadline
from testbed.errors import BusyError, LabError
from testbed.record.journal import Journal
from testbed.record.lease_rules import Resource
from testbed.run.cleanup import Cleanup
from testbed.run.far_end_faults import FarEndControl
from testbed.run.receivers import ReceiverReport
from testbed.schema import Lab

Settings = Mapping[str, Any]
"""`settle` by switch, `loss_of_signal` and `link_up` in seconds, `sensitivity` in dBm."""

SETTINGS = Resource("settings", name="settings of the twin")
"""All of them; a part of them is a run's that changes none."""

_LIMIT = 10.0


class TwinControl(FarEndControl, ReceiverReport, Protocol):
    """The twin's own door, as far as a run inside the twin uses it."""

    def settings_of(self, lab: Lab) -> Settings:
        """Return what the twin of a lab is to be tuned to."""

    def tuning(self) -> Settings:
        """Return what the twin is tuned to now."""

    def tune(self, settings: Settings) -> None:
        """Tune the running twin."""


class Tuning:
    """What a run has tuned its twin to; as it was before at the end, or after `recover`."""

    def __init__(self, twin: TwinControl, guard: Guard, journal: Journal, cleanup: Cleanup) -> None:
        self._twin = twin
        self._guard = guard
        self._journal = journal
        self._cleanup = cleanup
        self._wanted: Settings = {}
        self._may_change = False
        self._is_promised = False

    def needs(self, labs: Iterable[Lab], run: str) -> Resource:
        """Return what of the settings a run needs whose arms have these labs.

        Raise LabError when the twin has other switches than they.
        """
        all_wanted = [self._twin.settings_of(lab) for lab in labs]
        found = self._twin.tuning()
        if any(wanted["settle"].keys() != found["settle"].keys() for wanted in all_wanted):
            raise LabError(
                f"the twin has other switches than the lab file: {', '.join(found['settle'])}",
                hint="it was started before the file was changed: take it down and up again",
            )
        self._may_change = any(wanted != found for wanted in all_wanted)
        return SETTINGS if self._may_change else replace(SETTINGS, part=run)

    def settle(self, switches: Iterable[str]) -> float:
        """Return the seconds that the slowest of some switches settles."""
        return max((self._wanted["settle"][name] for name in switches), default=0.0)

    def follow(self, lab: Lab) -> None:
        """Bring the twin in line with a lab whose `twin` settings an arm has changed.

        Raise BusyError when somebody else has changed them although this run needs them to stay.
        """
        self._wanted, found = self._twin.settings_of(lab), self._twin.tuning()
        if found == self._wanted:
            return
        if not self._may_change:
            raise BusyError(
                f"the settings of the twin were changed behind our back: {dict(found)}",
                hint="find out who else uses this twin",
            )
        if not self._is_promised:
            self._promise(found)
        self._guard.resource(SETTINGS)
        self._twin.tune(self._wanted)

    def _promise(self, found: Settings) -> None:
        entry = self._journal.promise("tuning", settings=found)
        self._is_promised = True
        self._cleanup.push("settings of the twin", self._undo(found, entry), _LIMIT)

    def _undo(self, found: Settings, entry: int) -> Callable[[Deadline], None]:
        def undo(_: Deadline) -> None:
            self._guard.resource(SETTINGS)
            self._twin.tune(found)
            self._journal.settle(entry)

        return undo
