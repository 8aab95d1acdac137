"""A simulated Agiltron FF 1×N switch: one actuator, and its frames.

Assumptions beyond public documents are listed in drivers/README.md: channel 1 after power-on, the
last commanded channel as the answer, and no answer to an unknown frame.
"""

from __future__ import annotations

from testbed.bench.sites import SwitchSite
from testbed_drivers.dialects.frames_far_end import FramesFarEnd
from testbed_drivers.switches.descriptors.selectors import AgiltronOptions
from testbed_drivers.switches.selector import channels
from testbed_drivers.switches.simulated_selector import LIT_FAULTS, SimulatedSelector
from testbed_drivers.switches.switch import sides

_GO = b"\x01\x12\x00"
_ASK = b"\x01\x11\x00"


class AgiltronFarEnd(FramesFarEnd):
    """A simulated Agiltron FF switch."""

    length = 4

    def __init__(self, site: SwitchSite, options: AgiltronOptions | None = None) -> None:
        count = (options or AgiltronOptions()).channels
        super().__init__(LIT_FAULTS, site)
        site.ingress, site.egress = sides(1, count)
        self._positions = channels(count)
        self._switch = SimulatedSelector(site, self.faults, self.lock, self._positions)
        self.at_once |= self._switch.at_once(self.hang_up)

    def _carry_out(self, frame: bytes) -> bytes:
        if frame == _ASK + b"\0":
            return _ASK + bytes([self._switch.read_back()[1] - 1])
        if frame[:3] == _GO and 1 <= frame[3] <= len(self._positions):
            self._switch.point(self._positions[frame[3] - 1])
            return frame
        return b""
