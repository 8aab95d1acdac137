"""A simulated 2×2 Mach-Zehnder element: a phase, the light that results, and its SCPI.

Between the arms lies a phase φ. Of the light at an input, sin²(φ/2) leaves at the bar output and
the rest at the cross output, as far as the extinction ratio allows. Light of the other input at the
same output is crosstalk: a receiver that gets both with similar power can decode neither.
"""

from __future__ import annotations

import math
from threading import RLock

from testbed.bench.sites import SwitchSite
from testbed.fabric.device import State
from testbed_drivers.dialects.armed_faults import ArmedFaults
from testbed_drivers.dialects.scpi_far_end import Handler, Refused, ScpiFarEnd
from testbed_drivers.switches.descriptors.selectors import MziOptions
from testbed_drivers.switches.selector import positions_of
from testbed_drivers.switches.simulated_selector import ELEMENT_FAULTS, SimulatedSelector
from testbed_drivers.switches.switch import sides

FAULTS = {
    "half-switched": "reads back as done, but its phase stops half-way: light goes both ways",
}
"""What an interferometer can do wrong beyond the faults of any switch."""

BAR, CROSS = positions_of(2)
EXTINCTION = 25.0
"""dB between the light at the right output and at the wrong one."""
CLEAN = 10.0
"""dB by which a signal must exceed its crosstalk to be understood."""
_BAR_PHASE = math.pi
_CROSS_PHASE = 0.0


class Interferometer(SimulatedSelector):
    """The element: its phase determines the power at each output."""

    def __init__(self, site: SwitchSite, faults: ArmedFaults, lock: RLock) -> None:
        self.told = self._phase = _BAR_PHASE
        """The phase that a read-back of commands shows, and the one that is."""
        super().__init__(site, faults, lock, (BAR, CROSS))

    def shift(self, phase: float) -> None:
        """Set the phase, and recompute the light."""
        position = BAR if share(phase) > 0.5 else CROSS
        super().point(position)
        self.told = phase
        if self._mirrors == position:
            ports = (*position, *position.values())
            half_way = (self._phase + phase) / 2
            self._phase = half_way if self._strikes("half-switched", *ports) else phase
        self._show()

    def point(self, position: State) -> None:
        """Move to a position by setting its phase."""
        self.shift(_BAR_PHASE if position == BAR else _CROSS_PHASE)

    def restart(self, circuits: State) -> None:
        """Simulate a power cycle that ends in the phase of a position."""
        self.told = self._phase = _BAR_PHASE if circuits == BAR else _CROSS_PHASE
        super().restart(circuits)

    def _level(self, ingress: int, egress: int) -> float | None:
        level = super()._level(ingress, egress)
        bar = BAR[ingress] == egress
        return None if level is None else level + _decibels(share(self._phase), bar=bar)

    def _is_enough(self, ingress: int, egress: int) -> bool:
        signal, crosstalk = self._level(ingress, egress), self._level(3 - ingress, egress)
        clean = signal is None or crosstalk is None or signal - crosstalk >= CLEAN
        return clean and super()._is_enough(ingress, egress)


class MziFarEnd(ScpiFarEnd):
    """A simulated controller: the element in the options, and those added by `join`."""

    def __init__(self, site: SwitchSite, options: MziOptions | None = None) -> None:
        self._element = (options or MziOptions()).element
        identity = f"House,MZI-2x2,{site.serial},1.0"
        super().__init__(identity, self._commands(), {**ELEMENT_FAULTS, **FAULTS}, site)
        site.ingress, site.egress = sides(2, 2)
        self._switch = Interferometer(site, self.faults, self.lock)
        self.at_once |= self._switch.at_once(self.hang_up)

    def _commands(self) -> dict[str, Handler]:
        route = f"ROUTe{self._element}"
        return {
            "*RST": lambda _: self._switch.point(BAR),
            f"{route}:STATe": self._go,
            f"{route}:STATe?": lambda _: self._word(),
            f"{route}:PHASe": self._set_phase,
            f"{route}:PHASe?": lambda _: f"{self._switch.told:.6f}",
        }

    def _go(self, text: str) -> None:
        if text.upper() not in ("BAR", "CROSS"):
            raise Refused(-224, "Illegal parameter value")
        self._switch.point(BAR if text.upper() == "BAR" else CROSS)

    def _set_phase(self, text: str) -> None:
        try:
            phase = float(text)
        except ValueError:
            raise Refused(-104, "Data type error") from None
        if not 0 <= phase <= math.pi:
            raise Refused(-222, "Data out of range")
        self._switch.shift(phase)

    def _word(self) -> str:
        """Return the position; NONE when it was told a phase that is clearly neither."""
        bar = share(self._switch.told)
        if abs(_decibels(bar, bar=True) - _decibels(bar, bar=False)) < CLEAN:
            return "NONE"
        return "BAR" if self._switch.read_back() == BAR else "CROSS"


def share(phase: float) -> float:
    """Return the share of the light that leaves at the bar output."""
    return math.sin(phase / 2) ** 2


def _decibels(bar_share: float, *, bar: bool) -> float:
    """Return what one output gets of the light, in dB; never less than the extinction ratio."""
    part = bar_share if bar else 1 - bar_share
    return 10 * math.log10(max(part, 10 ** (-EXTINCTION / 10)))
