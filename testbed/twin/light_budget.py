"""The light budget: launched power, loss of fibres, power at the far side.

Levels are computed when they are asked for; nothing here happens for a packet. What a switch
itself takes is known to its far end, and whether the rest is enough for a receiver is decided
there. Only that matters to carriers and frames, which are the business of `light`.
"""

from __future__ import annotations

from collections.abc import Callable

from testbed.bench.sites import SwitchSite
from testbed.fabric.circuits import SwitchPort
from testbed.schema import Lab
from testbed.schema.twin import LAUNCH


class LightBudget:
    """The fibres between hosts and switches; `emits` tells whether a host sends light.

    Locks are taken in the order switch, then fabric, so none is taken here: single values are read
    and written, and a switch looks again after each change.
    """

    def __init__(self, lab: Lab, emits: Callable[[str], bool]) -> None:
        self._emits = emits
        self._launched = {
            port.fibres.tx: (name, LAUNCH if port.launch is None else port.launch)
            for name, host in lab.hosts.items()
            for port in host.ports.values()
            if port.fibres is not None
        }
        self._taken: dict[SwitchPort, float] = {}
        self._sites: dict[str, SwitchSite] = {}

    def join(self, switch: str, site: SwitchSite) -> None:
        """Add a switch to the budget, which then supplies the light of its fibres."""
        self._sites[switch] = site

        def arriving(port: int) -> float | None:
            fibre = SwitchPort(switch, port)
            host, level = self._launched.get(fibre, ("", 0.0))
            return level - self._taken.get(fibre, 0.0) if host and self._emits(host) else None

        site.launched = arriving
        site.beyond = lambda port: self._taken.get(SwitchPort(switch, port), 0.0)

    def take(self, fibre: SwitchPort, loss: float) -> None:
        """Set the loss of a fibre in dB, for both directions where it carries both."""
        self._taken[fibre] = loss
        self._sites[fibre.switch].look_again()

    def look_again(self) -> None:
        """Have every switch recompute its light: a sender, or a receiver's need, has changed."""
        for site in self._sites.values():
            site.look_again()

    def tapped(self, fibre: SwitchPort) -> float | None:
        """Return the dBm that arrive at the far end of a fibre, where taps are; None when dark.

        On a fibre both ways it is the stronger of the two.
        """
        site = self._sites[fibre.switch]
        levels = [site.launched(fibre.number)] if fibre.number in site.ingress else []
        if (level := site.leaving(fibre.number)) is not None:
            levels.append(level - site.beyond(fibre.number))
        return max((level for level in levels if level is not None), default=None)
