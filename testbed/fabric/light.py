"""Limits on the light at the ports of one switch.

They are the most power that a receiver may get, ports that must stay lit, and parking
cross-connects of unused ports. An unknown power is assumed to be the highest possible: the most
that the source can send, by its measurement and by the lab file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from testbed.fabric.device import Capabilities, State
from testbed.fabric.reading import NOT_MEASURED, Light, Reading, Readings


class LightRefused(ValueError):
    """A change could give a receiver too much light, or none to one that needs it."""

    def __init__(self, port: int, reason: str, *, source: int = 0, hint: str = "") -> None:
        super().__init__(f"port {port} {reason}")
        self.port = port
        """The port of the receiver."""
        self.source = source
        """The port of a source that is not known well enough; 0 where none is."""
        self.hint = hint
        """What to do about that source, so that it is known."""


@dataclass(frozen=True, slots=True)
class Overload:
    """A receiver that gets more power than its limit, as a monitor measured it."""

    ingress: int
    egress: int
    port: int
    """Where it was measured: one of the two."""
    dbm: float
    most: float

    def __str__(self) -> str:
        where = "leave" if self.port == self.egress else f"enter at port {self.ingress} for it"
        return f"port {self.egress} withstands {self.most:g} dBm and {self.dbm:.1f} dBm {where}"


@dataclass(frozen=True, slots=True)
class LightLimits:
    """The limits of the light at the ports of one switch, which a plan must respect."""

    max_dbm: Mapping[int, float] = field(default_factory=dict)
    """The most power that the receiver behind an egress port may get, in dBm."""
    keep_alive: frozenset[int] = frozenset()
    """The egress ports that are never left without the light they had."""
    safe: State = field(default_factory=dict)
    """The parking cross-connects of unused ports."""
    launch: Mapping[int, float] = field(default_factory=dict)
    """By ingress port, the most that its source sends, where the lab file says so."""

    def __bool__(self) -> bool:
        return bool(self.max_dbm or self.keep_alive)

    def limited(self, state: State) -> dict[int, int]:
        """Return the cross-connects whose egress leads to a receiver with a limit."""
        return {i: e for i, e in state.items() if e in self.max_dbm}

    def beams(self, state: State) -> list[tuple[int, int]]:
        """Return the pairs (source, receiver) of ports in a state, for receivers with a limit.

        Light passes a cross-connect in both directions; a port that only takes light in has no
        receiver.
        """
        return sorted(pair for pair in _paths(state) if pair[1] in self.max_dbm)

    def new_paths(self, before: State, after: State, can: Capabilities) -> list[tuple[int, int]]:
        """Return the pairs (source, receiver) that a change adds, for receivers with a limit.

        They include pairs that a switch joins for a moment while it moves.
        """
        moved = {i for i in {*before, *after} if before.get(i) != after.get(i)}
        there = (after, *(can.positions if can.sweeps else ()))
        anew = [{i: state[i] for i in moved if i in state} for state in there]
        return sorted({pair for state in anew for pair in self.beams(state)})

    def sources(self, before: State, after: State, can: Capabilities) -> frozenset[int]:
        """Return the ports whose incoming light must be known before a change of state."""
        asked = {source for source, _ in self.new_paths(before, after, can)}
        for state in (before, after):
            asked |= {source for source, port in _paths(state) if port in self.keep_alive}
        return frozenset(asked)

    def check(
        self,
        before: State,
        after: State,
        readings: Readings,
        can: Capabilities,
        returns: Mapping[int, float] = {},
    ) -> None:
        """Raise LightRefused when a change from one state to another could break a limit.

        `readings` are of the light that enters; `returns` is the attenuation that the testbed has
        added and will remove again, in dB by ingress port. Of the path's loss only the minimum of
        the switch counts.
        """
        for ingress, egress in self.new_paths(before, after, can):
            reading = readings.get(ingress, NOT_MEASURED)
            self._check_strength(ingress, egress, reading, can, returns.get(ingress, 0.0))
        had = {port for i, port in _paths(before) if _reading(i, readings) is not Light.DARK}
        lit = (Light.MEASURED, Light.NOT_MEASURED)  # what no monitor sees may be lit
        has = {port for i, port in _paths(after) if _reading(i, readings) in lit}
        for egress in sorted(self.keep_alive & had - has):
            raise LightRefused(egress, "is listed in keep_alive and would go dark")

    def overloads(self, state: State, readings: Readings, can: Capabilities) -> Iterator[Overload]:
        """Yield the receivers whose measured power is over the limit by more than the error."""
        for ingress, egress in sorted(self.limited(state).items()):
            for port in (egress, ingress):
                level, most = readings.get(port, NOT_MEASURED).dbm, self.max_dbm[egress]
                if level is not None and level - can.monitor_error > most:
                    yield Overload(ingress, egress, port, level, most)
                    break

    def _check_strength(
        self, ingress: int, egress: int, reading: Reading, can: Capabilities, returns: float
    ) -> None:
        limit = f"withstands {self.max_dbm[egress]:g} dBm"
        if (level := self._most(ingress, reading, can, returns)) is None:
            why, hint = _WHY_UNKNOWN[reading.light]
            raise LightRefused(
                egress, f"{limit} and {why.format(ingress)}", source=ingress, hint=hint
            )
        if level > self.max_dbm[egress]:
            told = f"{reading} measured" if reading.dbm is not None else "as the lab file says"
            raise LightRefused(
                egress, f"{limit} and could get {level:.1f} dBm from port {ingress} ({told})"
            )

    def _most(
        self, ingress: int, reading: Reading, can: Capabilities, returns: float
    ) -> float | None:
        """Return the most that can leave the switch of a source's light; None: it is not known."""
        if reading.dbm is not None:
            return reading.dbm + can.monitor_error + returns - can.least_loss
        if reading.light is Light.NOT_MEASURED or ingress not in self.launch:
            return None
        return self.launch[ingress] - can.least_loss


NO_LIMITS = LightLimits()

_WHY_UNKNOWN = {
    Light.DARK: (
        "the source at port {} is dark: how strong it will be is not known",
        "let it send, so that it is measured, or write its `launch` in the lab file",
    ),
    Light.NOT_CONNECTED: (
        "what enters at port {} is measured in a circuit only: how strong it is is not known",
        "write its `launch` in the lab file",
    ),
    Light.NOT_MEASURED: (
        "what enters at port {} is not measured",
        "use a port that has a monitor; a `launch` that no monitor can check does not suffice",
    ),
}
"""Why the strength of light is not known, and what to do so that it is."""


def _paths(state: State) -> Iterator[tuple[int, int]]:
    """Yield each pair of ports, source first, between which light can go in a state."""
    for ingress, egress in state.items():
        yield ingress, egress
        yield egress, ingress


def _reading(ingress: int, readings: Readings) -> Light:
    return readings.get(ingress, NOT_MEASURED).light
