"""A simulated DiCon MXS-9100: mirrors, and its SCPI.

Its error queue holds 8 errors and drops newer ones when it is full. Assumptions beyond public
documents are listed in drivers/README.md: `SCAN 0` is dark, an output in use is refused (-221),
moves are accepted during other moves.
"""

from __future__ import annotations

from functools import partial

from testbed.bench.sites import SwitchSite
from testbed_drivers.dialects.scpi_far_end import ErrorQueue, Handler, Refused, ScpiFarEnd
from testbed_drivers.switches import simulated_switch
from testbed_drivers.switches.descriptors.selectors import DiconMxsOptions
from testbed_drivers.switches.simulated_switch import SimulatedSwitch
from testbed_drivers.switches.switch import sides


class ShortErrorQueue(ErrorQueue):
    """A first-in, first-out queue; when it is full, newer errors are lost."""

    LENGTH = 8

    def put(self, number: int, words: str) -> None:
        """Add an error to the queue, unless it is full."""
        if not self.is_full:
            super().put(number, words)


_NOT_HERE = ("partial", "flap")
FAULTS = {name: what for name, what in simulated_switch.FAULTS.items() if name not in _NOT_HERE}
"""What it can do wrong: it is asked for one port at a time, so no read-back of it is one answer."""


class DiconMxsFarEnd(ScpiFarEnd):
    """A simulated DiCon MXS-9100; after power-on it is dark."""

    def __init__(self, site: SwitchSite, options: DiconMxsOptions | None = None) -> None:
        self._inputs, self._outputs = (options or DiconMxsOptions()).size
        self._saves = False
        self._records = 0
        super().__init__(
            f"DiCon,MXS-9100,{site.serial},1.0",
            self._commands(),
            FAULTS,
            site,
            end=b"\r",
            errors=ShortErrorQueue(),
        )
        site.ingress, site.egress = sides(self._inputs, self._outputs)
        self._switch = SimulatedSwitch(site, self.faults, self.lock)
        self.at_once |= self._switch.at_once(self.hang_up)

    def _commands(self) -> dict[str, Handler]:
        commands: dict[str, Handler] = {
            "STATus?": lambda _: self._status(),
            "WEN": self._write_enable,
            "QCT?": lambda _: str(self._records),
            "*RST": lambda _: self._switch.disconnect(self._switch.commanded),
        }
        for ingress in range(1, self._inputs + 1):
            commands[f"ROUTe{ingress}:SCAN"] = partial(self._scan, ingress)
            commands[f"ROUTe{ingress}:SCAN?"] = partial(self._output, ingress)
        return commands

    def _scan(self, ingress: int, text: str) -> None:
        if not text.isdecimal() or int(text) > self._outputs:
            raise Refused(-222, "Data out of range")
        egress = self._inputs + int(text)
        present = self._switch.commanded.get(ingress)
        if egress == present:
            return
        if egress in self._switch.commanded.values():
            if self._switch.site.conflict == "refuse":
                raise Refused(-221, f"Settings conflict; output {text} is in use")
            if self._switch.site.conflict == "ignore":
                return
        if present is not None:
            self._switch.disconnect({ingress: present})
        if int(text) and ingress not in self._switch.commanded:
            self._switch.connect({ingress: egress})
        self._records += self._saves

    def _output(self, ingress: int, _: str) -> str:
        return str(self._switch.read_back().get(ingress, self._inputs) - self._inputs)

    def _status(self) -> str:
        words = set(self._switch.unsteady().values())
        return "DEFECTIVE" if "failed" in words else "BUSY" if words else "READY"

    def _write_enable(self, text: str) -> None:
        if text not in ("0", "1"):
            raise Refused(-224, "Illegal parameter value")
        self._saves = text == "1"
