"""Check the light of one switch against its limits: before a change, after it, and later.

Only receivers with a limit are measured: a change that leads no light to one reads nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from testbed.bench.contracts import OpticalSwitch
from testbed.bench.ownership import OwnedPorts
from testbed.clock import Deadline
from testbed.errors import LabError
from testbed.fabric.change import Change, after
from testbed.fabric.circuits import SwitchPort
from testbed.fabric.device import State
from testbed.fabric.light import LightLimits, LightRefused, Overload
from testbed.fabric.reading import Readings


@dataclass(frozen=True, slots=True)
class LightCheck:
    """The limits of the light at one switch."""

    _ours: OwnedPorts
    _switch: OpticalSwitch
    _limits: LightLimits
    _added: Callable[[SwitchPort], float]
    """Returns how many dB the testbed has added to a fibre's attenuator for a while."""

    def allow(self, state: State, change: Change, deadline: Deadline) -> None:
        """Raise LabError with a remedy when a change could break a limit."""
        there = after(state, change)
        can = self._switch.capabilities
        asked = self._limits.sources(state, there, can)
        if not (change and asked):
            return
        readings = self._readings(asked & can.monitored & can.ingress, deadline)
        returns = {i: self._added(SwitchPort(self._ours.name, i)) for i in asked}
        try:
            self._limits.check(state, there, readings, can, returns)
        except LightRefused as error:
            raise self._refusal(error) from None

    def look(self, state: State, deadline: Deadline) -> list[Overload]:
        """Measure the receivers of a state; return those with more light than their limit."""
        state = self._limits.limited(state)
        can = self._switch.capabilities
        ports = {port for pair in state.items() for port in pair} & can.monitored
        readings = self._readings(ports, deadline)
        return list(self._limits.overloads(state, readings, can))

    def verify(self, change: Change, shown: State, deadline: Deadline) -> None:
        """Measure the new light of receivers with a limit; raise LabError when it is exceeded.

        The change is not retried then, as the switch did what was ordered.
        """
        new = dict(change.adds.items() & shown.items())
        for overload in self.look(new, deadline):
            raise LabError(f"{self._ours.name}: {self.words(overload)}", hint=_TOO_BRIGHT)

    def words(self, overload: Overload) -> str:
        """Describe a receiver that gets too much light, with the host port at that fibre."""
        return f"{overload}; {self._ours.receivers.get(overload.egress, _UNWIRED)} is behind it"

    def _readings(self, ports: frozenset[int] | set[int], deadline: Deadline) -> Readings:
        return self._switch.power(sorted(ports), deadline) if ports else {}

    def _refusal(self, error: LightRefused) -> LabError:
        behind = self._ours.receivers.get(error.port, _UNWIRED)
        hint = error.hint
        if error.source:
            sender = self._ours.senders.get(error.source, "an unwired source")
            hint = f"{sender} sends into port {error.source}: {hint}"
        return LabError(f"{self._ours.name}: {error}; {behind} is behind it", hint=hint)


_UNWIRED = "an unwired receiver"
_TOO_BRIGHT = "correct `launch` in the lab file, or put an attenuator into the fibre"
