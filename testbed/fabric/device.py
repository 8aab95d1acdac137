"""The properties of a switch: its ports, the circuits it can hold, and its timing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.fabric.mesh import Mesh

State = Mapping[int, int]
"""The cross-connects of one switch, ingress port to egress port."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a switch can do, as far as planning and verifying a change depends on it.

    Ports are numbered alike for every family: ingress ports are 1…N, egress ports N+1…. A switch
    with one side joins any two of its ports 1…N; the lower of them counts as the ingress.
    """

    ingress: frozenset[int]
    egress: frozenset[int]
    settle: float
    """Seconds until light is steady after a change, as declared by the maker."""
    settle_max: float
    """Seconds after which light that is not steady will not become so."""
    positions: tuple[State, ...] = ()
    """Every state of a switch that is never dark; empty: any matching of ingress with egress."""
    mesh: Mesh | None = None
    """The cells of a photonic mesh, which routes a whole matching at a time, as they stand now."""
    steadiness: bool = False
    """Whether it tells which of its cross-connects are not in order."""
    motion_unseen: bool = False
    """Whether a mirror that still moves counts as in order there."""
    sweeps: bool = False
    """Whether light passes other positions for a moment on its way from one to another."""
    monitored: frozenset[int] = frozenset()
    """The ports whose light level it measures."""
    averaging: float = 0.0
    """Seconds over which its monitors average: they show a change of light that much later."""
    loss: tuple[float, float] = (-1.0, 6.0)
    """The least and the most that a good path takes from the light, in dB by its own monitors.

    Less than nothing is the monitors' error: two of them are off by `monitor_error` each.
    """
    monitor_error: float = 0.5
    """The most, in dB, by which a monitor reads too much or too little."""

    @property
    def has_one_side(self) -> bool:
        """Tell whether any two ports can be joined, without separate inputs and outputs."""
        return not self.ingress.isdisjoint(self.egress)

    @property
    def least_loss(self) -> float:
        """Return the least insertion loss of any path in dB, independent of monitors."""
        return self.loss[0] + 2 * self.monitor_error


def spans(ports: Iterable[int]) -> str:
    """Format port numbers as a lab file lists them: `1-12, 25`."""
    found: list[list[int]] = []
    for port in sorted(ports):
        if found and found[-1][-1] == port - 1:
            found[-1][1:] = [port]
        else:
            found.append([port])
    return ", ".join("-".join(map(str, span)) for span in found)
