"""A simulated Thorlabs OSW12 or OSW22: one mirror, two positions, and its text lines.

The first answer after a move is still the old position, as one public driver found. Assumptions
beyond public documents are listed in drivers/README.md: position 1 after power-on, and no answer to
an unknown line.
"""

from __future__ import annotations

from testbed.bench.sites import SwitchSite
from testbed_drivers.dialects.text_far_end import TextFarEnd
from testbed_drivers.switches.descriptors.selectors import ThorlabsOptions
from testbed_drivers.switches.selector import positions_of
from testbed_drivers.switches.simulated_selector import ELEMENT_FAULTS, SimulatedSelector
from testbed_drivers.switches.switch import sides


class ThorlabsFarEnd(TextFarEnd):
    """A simulated Thorlabs OSW switch."""

    def __init__(self, site: SwitchSite, options: ThorlabsOptions | None = None) -> None:
        super().__init__(ELEMENT_FAULTS, site)
        inputs = int((options or ThorlabsOptions()).model[3])
        site.ingress, site.egress = sides(inputs, 2)
        self._positions = positions_of(inputs)
        self._switch = SimulatedSelector(site, self.faults, self.lock, self._positions)
        self.at_once |= self._switch.at_once(self.hang_up)
        self._old: str = ""

    def _carry_out(self, line: str) -> str:
        here = str(self._positions.index(self._switch.commanded) + 1)
        if line == "S?":
            shown = str(self._positions.index(self._switch.read_back()) + 1)
            answer, self._old = self._old or shown, ""
            return answer
        if line in ("S 1", "S 2"):
            self._old = here
            self._switch.point(self._positions[int(line[-1]) - 1])
        return ""
