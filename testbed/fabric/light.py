"""What light may do at the ports of one switch.

The most that a receiver bears, light that must stay, and where light rests that nobody uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from testbed.fabric.device import State

Levels = Mapping[int, float | None]
"""Measured light by port, in dBm; None where the monitor sees none. No entry: not measured."""


class LightRefused(ValueError):
    """Light would be too strong for a receiver, or a receiver that needs light would lose it."""

    def __init__(self, port: int, reason: str) -> None:
        super().__init__(f"port {port} {reason}")
        self.port = port


@dataclass(frozen=True, slots=True)
class LightLimits:
    """What a plan must respect at the egress ports of one switch."""

    max_dbm: Mapping[int, float] = field(default_factory=dict)
    """The strongest light that the receiver behind a port bears."""
    keep_alive: frozenset[int] = frozenset()
    """The ports that are never left without the light they had."""
    safe: State = field(default_factory=dict)
    """The cross-connects in which ports rest that nobody uses."""

    def __bool__(self) -> bool:
        return bool(self.max_dbm or self.keep_alive)

    def check(self, before: State, after: State, launched: Levels) -> None:
        """Raise LightRefused when going from one state to another breaks a limit.

        `launched` is the light that enters at ingress ports. A receiver with a limit gets no light
        that was not measured; the loss on the way is not counted, so the worst case decides.
        """
        for ingress, egress in sorted(after.items()):
            if before.get(ingress) != egress and egress in self.max_dbm:
                self._check_strength(ingress, egress, launched)
        had, has = _lit(before, launched), _lit(after, launched)
        for egress in sorted(self.keep_alive & had - has):
            raise LightRefused(egress, "is to be kept alight and would go dark")

    def _check_strength(self, ingress: int, egress: int, launched: Levels) -> None:
        most = self.max_dbm[egress]
        if ingress not in launched:
            raise LightRefused(
                egress, f"bears {most:g} dBm and what enters at port {ingress} cannot be measured"
            )
        level = launched[ingress]
        if level is not None and level > most:
            raise LightRefused(
                egress, f"bears {most:g} dBm and would get {level:.1f} dBm from port {ingress}"
            )


NO_LIMITS = LightLimits()


def _lit(state: State, launched: Levels) -> set[int]:
    """Return the egress ports that get light, as far as is known: what is not measured is lit."""
    return {e for i, e in state.items() if launched.get(i, 0.0) is not None}
