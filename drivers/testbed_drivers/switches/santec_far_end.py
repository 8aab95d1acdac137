"""A simulated Santec OSX: motors that still move after the answer, and its SCPI.

Assumptions beyond public documents are listed in drivers/README.md: error numbers, channel 1 after
power-on, a condition bit that stays set when a move fails, and `CHAN?` answering the last commanded
channel.
"""

from __future__ import annotations

from testbed.bench.sites import SwitchSite
from testbed_drivers.dialects.scpi_far_end import Handler, Refused, ScpiFarEnd
from testbed_drivers.switches.descriptors.selectors import SantecOptions
from testbed_drivers.switches.selector import channels
from testbed_drivers.switches.simulated_selector import (
    LIT_FAULTS,
    SimulatedSelector,
    set_selector_ports,
)

_MOVING = 1


class SantecFarEnd(ScpiFarEnd):
    """A simulated Santec OSX: the module in the options, and those added by `join`."""

    def __init__(self, site: SwitchSite, options: SantecOptions | None = None) -> None:
        self._module = (options or SantecOptions()).module
        self._positions = channels(set_selector_ports(site))
        self._modules = {self._module: self}
        identity = f"Santec,OSX-100,{site.serial},1.0"
        super().__init__(identity, self._commands(), LIT_FAULTS, site)
        self._switch = SimulatedSelector(site, self.faults, self.lock, self._positions)
        self.at_once |= self._switch.at_once(self.hang_up)

    def join(self, other: ScpiFarEnd) -> None:
        """Serve another module of the same frame, too."""
        super().join(other)
        assert isinstance(other, SantecFarEnd)
        self._modules[other._module] = other

    def _catalogue(self) -> str:
        """Return the channels of every module up to the last one that has fibres."""
        every = (self._modules.get(n, self) for n in range(1, max(self._modules) + 1))
        return ",".join(f'"SX 1Ax{len(module._positions)}"' for module in every)

    def _is_moving(self) -> bool:
        return any(module._switch.unsteady() for module in self._modules.values())

    def _commands(self) -> dict[str, Handler]:
        route, count = f"ROUTe{self._module}", len(self._positions)
        return {
            "MODule:CATalog?": lambda _: self._catalogue(),
            "MODule:NUMber?": lambda _: str(max(self._modules)),
            "CFG:SWT:END?": lambda _: str(count),
            "STATus:OPERation:CONDition?": lambda _: str(_MOVING if self._is_moving() else 0),
            "CLOSe": self._close,
            "CLOSe?": lambda _: self._shown(),
            f"{route}:CHANnel": self._go,
            f"{route}:CHANnel?": lambda _: self._shown(),
            "ROUTe:CHANnel:ALL": self._go,
            f"{route}:HOMe": lambda _: self._go("1"),
            "*RST": lambda _: self._go("1"),
        }

    @property
    def _channel(self) -> int:
        return self._switch.commanded[1] - 1

    def _shown(self) -> str:
        return str(self._switch.read_back()[1] - 1)

    def _go(self, text: str) -> None:
        if not text.isdecimal() or not 1 <= int(text) <= len(self._positions):
            raise Refused(-222, "Data out of range")
        self._switch.point(self._positions[int(text) - 1])

    def _close(self, text: str) -> None:
        """Go to a channel; to the next one when none is named."""
        self._go(text or str(self._channel % len(self._positions) + 1))
