"""The settings of the twin around a run: its arms may change them, and they are restored.

Every run in a twin needs stable settings: each run leases a part of its own, and a run that changes
settings leases them as a whole, so that no other run uses the twin at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from testbed.bench.characterisation import with_time_to_settle
from testbed.errors import BusyError, LabError
from testbed.faults.contracts import Undo
from testbed.record.lease_rules import Resource
from testbed.run.context import RunContext
from testbed.run.twin_control import Settings, TwinControl
from testbed.schema import Arm, Lab

SETTINGS = Resource("settings", name="settings of the twin")
"""All of them; a part of them is a run's that changes none."""

_LIMIT = 10.0


def lab_for_twin(lab: Lab, twin: TwinControl, arms: Iterable[Arm]) -> Lab:
    """Return a lab whose drivers wait for as long as the twin's switches settle in any arm."""
    settings = [twin.settings_of(arm.of(lab))["settle"] for arm in arms]
    longest = {name: max(one[name] for one in settings) for name in lab.switches}
    return with_time_to_settle(lab, longest)


class TwinSettings:
    """The twin settings that a run has changed; restored at its end, or by `recover`."""

    def __init__(self, twin: TwinControl, context: RunContext) -> None:
        self._twin = twin
        self._context = context
        self._wanted: Settings = {}
        self._may_change = False
        self._has_undo = False

    def needs(self, labs: Iterable[Lab], run: str) -> Resource:
        """Return the settings resource that a run must lease whose arms have these labs.

        Raise LabError when the twin's switches differ from those of the labs.
        """
        all_wanted = [self._twin.settings_of(lab) for lab in labs]
        found = self._twin.tuning()
        if any(wanted["settle"].keys() != found["settle"].keys() for wanted in all_wanted):
            raise LabError(
                f"the twin has the switches {', '.join(found['settle']) or 'none'}, and the lab "
                "file has others",
                hint="take the twin down and up again, so that it follows the file",
            )
        self._may_change = any(wanted != found for wanted in all_wanted)
        return SETTINGS if self._may_change else replace(SETTINGS, part=run)

    def slowest(self, of: str, switches: Iterable[str]) -> float:
        """Return the longest `settle` or `link_up` time of some switches, in seconds."""
        return max((self._wanted[of][name] for name in switches), default=0.0)

    def follow(self, lab: Lab) -> None:
        """Apply the `twin` settings of a lab, which an arm may have changed, to the twin.

        Raise BusyError when another program has changed them although this run has leased them.
        """
        self._wanted, found = self._twin.settings_of(lab), self._twin.tuning()
        if found == self._wanted:
            return
        if not self._may_change:
            raise BusyError(
                f"the settings of the twin were changed by another program: {dict(found)}",
                hint="find the other program that uses this twin",
            )
        if not self._has_undo:
            entry = Undo("tuning", {"settings": found})
            self._context.push_undo(str(SETTINGS), lambda _: self._tune(found), _LIMIT, entry)
            self._has_undo = True
        self._tune(self._wanted)

    def _tune(self, settings: Settings) -> None:
        self._context.bench.guard.resource(SETTINGS)
        self._twin.tune(settings)
