"""A simulated DiCon 1×N module: one mirror, and its text lines.

An answer comes after an empty line. Assumptions beyond public documents are listed in
drivers/README.md: the form of `ID?` and of `CF?` beyond its second field, that `I1?` answers the
last commanded channel even while the mirror moves, and no answer to an unknown line.
"""

from __future__ import annotations

import re

from testbed.bench.sites import SwitchSite
from testbed_drivers.dialects.text_far_end import TextFarEnd
from testbed_drivers.switches.descriptors.selectors import DiconOptions
from testbed_drivers.switches.selector import channels
from testbed_drivers.switches.simulated_selector import (
    SELECTOR_FAULTS,
    SimulatedSelector,
    set_selector_ports,
)

_MOVE = re.compile(r"I1 (\d+)")


class DiconFarEnd(TextFarEnd):
    """A simulated DiCon 1×N module; after power-on it is parked at channel 0."""

    before = b"\n"

    def __init__(self, site: SwitchSite, options: DiconOptions | None = None) -> None:
        super().__init__(SELECTOR_FAULTS, site)
        self._count = set_selector_ports(site)
        self._positions = ({}, *channels(self._count))
        self._switch = SimulatedSelector(site, self.faults, self.lock, self._positions)
        self.at_once |= self._switch.at_once(self.hang_up)
        self._answers = {
            "ID?": lambda: f"DiCon,MEMS-1x{self._count},{site.serial},1.0",
            "CF?": lambda: f"1,{self._count}",
            "I1?": lambda: str(self._switch.read_back().get(1, 1) - 1),
        }

    def _carry_out(self, line: str) -> str:
        command = "I1 0" if line.upper() == "PK" else line.upper()
        if command in self._answers:
            return self._answers[command]()
        move = _MOVE.fullmatch(command)
        if move and int(move[1]) <= self._count:
            self._switch.point(self._positions[int(move[1])])
        return ""
