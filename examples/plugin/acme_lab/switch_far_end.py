"""A simulated Acme crossbar: the device side of its SCPI.

A list with a port that is in use is refused as a whole; to disconnect what is not connected does
nothing.
"""

from __future__ import annotations

from acme_lab.descriptors import AcmeOptions
from testbed.bench.sites import SwitchSite
from testbed_drivers.dialects.scpi_far_end import Refused, ScpiFarEnd
from testbed_drivers.dialects.scpi_syntax import port_list, port_lists
from testbed_drivers.switches.simulated_switch import FAULTS, SimulatedSwitch


class AcmeFarEnd(ScpiFarEnd):
    """A simulated Acme crossbar."""

    def __init__(self, site: SwitchSite, options: AcmeOptions | None = None) -> None:
        self._site = site
        commands = {
            "SIZE?": lambda _: f"{max(site.ingress)},{max(site.egress) - max(site.ingress)}",
            "MAP?": lambda _: self._map(),
            "JOIN": self._join,
            "PART": self._part,
        }
        super().__init__(f"Acme,OXC,{site.serial},1.0", commands, FAULTS, site)
        self._switch = SimulatedSwitch(site, self.faults, self.lock)
        self.at_once |= self._switch.at_once(self.hang_up)

    def _map(self) -> str:
        rows = sorted(self._switch.read_back().items())
        return f"{port_list(i for i, _ in rows)},{port_list(e for _, e in rows)}"

    def _join(self, text: str) -> None:
        pairs = self._pairs(text)
        if used := self._switch.in_use(pairs):
            raise Refused(-221, f"Settings conflict; port {min(used.values())} is in use")
        self._switch.connect(pairs)

    def _part(self, text: str) -> None:
        self._switch.disconnect(self._pairs(text))

    def _pairs(self, text: str) -> dict[int, int]:
        try:
            inputs, outputs = port_lists(text.replace(" ", ""))
            pairs = dict(zip(inputs, outputs, strict=True))
        except ValueError:
            raise Refused(-104, "Data type error") from None
        if not (pairs.keys() <= self._site.ingress and self._site.egress >= {*pairs.values()}):
            raise Refused(-222, "Data out of range; no such port")
        return pairs
