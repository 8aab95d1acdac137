"""The light budget: launched power, loss of fibres, power at the receiving end.

Levels are computed on request, never per packet. The far end of a switch knows the switch's own
loss, and decides whether the remaining power is enough for a receiver. `light` derives carriers and
frames from that decision.
"""

from __future__ import annotations

from collections.abc import Callable

from testbed.bench.sites import SwitchSite
from testbed.fabric.circuits import SwitchPort
from testbed.schema import Lab
from testbed.schema.twin import LAUNCH


class LightBudget:
    """The fibres between hosts and switches; `emits` returns whether a host sends light.

    Locks are taken in the order switch, then fabric, so none is taken here: single values are read
    and written, and a switch recomputes its light after each change.
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
        """Make every switch recompute its light after a sender or a receiver has changed."""
        for site in self._sites.values():
            site.look_again()

    def tapped(self, fibre: SwitchPort) -> float | None:
        """Return the power in dBm at the tap of a fibre, before the switch; None when dark.

        On a bidirectional fibre it is the stronger of both directions.
        """
        site = self._sites[fibre.switch]
        levels = [site.launched(fibre.number)] if fibre.number in site.ingress else []
        if (level := site.leaving(fibre.number)) is not None:
            levels.append(level - site.beyond(fibre.number))
        return max((level for level in levels if level is not None), default=None)
