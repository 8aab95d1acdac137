"""A simulated Polatis switch: ports, mirrors with a settle time, and its SCPI.

Assumptions beyond public documents are listed in drivers/README.md: ADD with a port that is in use
is refused as a whole (-221) unless the very same pairs are connected already; SUB of a circuit that
does not exist does nothing; the peer of an unconnected port reads as an empty string.
"""

from __future__ import annotations

from testbed.bench.sites import SwitchSite
from testbed_drivers.dialects.scpi_far_end import Handler, Refused, ScpiFarEnd
from testbed_drivers.dialects.scpi_syntax import pattern, port_list, port_lists
from testbed_drivers.switches.descriptors.polatis import Monitors, PolatisOptions
from testbed_drivers.switches.simulated_switch import FAULTS, SimulatedSwitch

_DARK = -60.0
"""dBm that a power monitor without light reads."""
_PORTS_PER_QUERY = 256
_BOOT_MODES = ("DARK", "RESTore", "AUTosave")


class PolatisFarEnd(ScpiFarEnd):
    """A simulated Polatis switch with SCPI."""

    def __init__(self, site: SwitchSite, options: PolatisOptions | None = None) -> None:
        options = options or PolatisOptions()
        self._inputs, self._outputs = options.size or size_at(site)
        self._boot_mode = "DARK"
        self._monitored = monitored(options.monitors or False, self._inputs, self._outputs)
        line = "VST" if self._monitored else "I-OST"
        size = f"{self._inputs}x{self._outputs or 'CC'}"
        model = f"{line}-{size}-LU1-DMHNS"
        identity = f"Polatis,{model},{site.serial},6.5.2.18"
        super().__init__(identity, self._commands(), FAULTS, site)
        self._options = options
        self._switch = SimulatedSwitch(site, self.faults, self.lock)
        self.at_once |= self._switch.at_once(self.hang_up, self._remembered)

    def _reply_end(self, serial: bool) -> bytes:
        return self._options.ends(serial=serial)[1]

    def _commands(self) -> dict[str, Handler]:
        monitors: dict[str, Handler] = {"PMON:POWer?": self._levels} if self._monitored else {}
        return monitors | {
            "*RST": lambda _: self._switch.disconnect(self._switch.commanded),
            "OXC:SWITch:SIZE?": lambda _: f"{self._inputs},{self._outputs}",
            "OXC:SWITch:CONNect:ADD": lambda text: self._add(self._pairs(text)),
            "OXC:SWITch:CONNect:SUB": lambda text: self._switch.disconnect(self._named(text)),
            "OXC:SWITch:CONNect:ONLY": lambda text: self._only(self._pairs(text)),
            "OXC:SWITch:CONNect:STATe?": lambda _: _two_lists(self._switch.read_back()),
            "OXC:SWITch:CONNect:PORT?": self._peer,
            "OXC:SWITch:DISConnect:ALL": lambda _: self._switch.disconnect(self._switch.commanded),
            "OXC:SWITch:PORT:DISable": lambda text: self._switch.shut(self._ports(text)),
            "OXC:SWITch:PORT:ENABle": lambda text: self._switch.unshut(self._ports(text)),
            "OXC:SWITch:PORT:STATe?": self._port_states,
            "OXC:BOOT:MODE": self._set_boot_mode,
            "OXC:BOOT:MODE?": lambda _: self._boot_mode,
        }

    def _add(self, pairs: dict[int, int]) -> None:
        for port in self._switch.in_use(pairs).values():
            raise Refused(-221, f"Settings conflict; port {port} is in use")
        self._switch.connect(pairs)

    def _only(self, pairs: dict[int, int]) -> None:
        commanded = self._switch.commanded
        self._switch.disconnect({i: e for i, e in commanded.items() if pairs.get(i) != e})
        self._add(pairs)

    def _remembered(self) -> dict[int, int]:
        return {} if self._boot_mode == "DARK" else dict(self._switch.commanded)

    def _peer(self, text: str) -> str:
        (port,) = self._ports(f"(@{text})")
        commanded = self._switch.commanded
        peers = {**commanded, **{e: i for i, e in commanded.items()}}
        return f'"{peers.get(port, "")}"'

    def _port_states(self, text: str) -> str:
        ports = self._ports(text) if text else range(1, self._inputs + self._outputs + 1)
        return f"({','.join(map(self._port_state, ports))})"

    def _port_state(self, port: int) -> str:
        if self._switch.has_failed(port):
            return "F"
        return "D" if self._switch.is_shut(port) else "E"

    def _levels(self, text: str) -> str:
        ports = self._ports(text)
        if len(ports) > _PORTS_PER_QUERY:
            raise Refused(-223, "Too much data")
        for port in ports:
            if port not in self._monitored:
                raise Refused(-241, f"Hardware missing; no monitor at port {port}")
        levels = (self._switch.power(port) for port in ports)
        return f"({','.join(f'{_DARK if level is None else level:.1f}' for level in levels)})"

    def _set_boot_mode(self, text: str) -> None:
        for mode in _BOOT_MODES:
            if pattern(mode).fullmatch(text):
                self._boot_mode = mode.upper()
                return
        raise Refused(-224, "Illegal parameter value")

    def _ports(self, text: str) -> tuple[int, ...]:
        """Return the ports of one list."""
        lists = self._lists(text)
        if len(lists) != 1:
            raise Refused(-108, "Parameter not allowed")
        return lists[0]

    def _pairs(self, text: str) -> dict[int, int]:
        """Return the pairs of two lists, input first; either end may be given first."""
        lists = self._lists(text)
        if len(lists) != 2 or len(lists[0]) != len(lists[1]):
            raise Refused(-109, "Missing parameter")
        if len({*lists[0], *lists[1]}) != len(lists[0]) + len(lists[1]):
            raise Refused(-221, "Settings conflict; a port is named twice")
        pairs = dict(zip(*lists, strict=True))
        if max(pairs, default=0) > self._inputs or not self._outputs:
            pairs = dict(zip(map(min, *lists), map(max, *lists), strict=True))
        if pairs and self._outputs and not max(pairs) <= self._inputs < min(pairs.values()):
            raise Refused(-222, "Data out of range; not an input and an output")
        return pairs

    def _named(self, text: str) -> dict[int, int]:
        """Return the circuits that SUB names: by pairs, or by one end with `(@)` as the other."""
        lists = self._lists(text)
        if len(lists) == 2 and not all(lists):
            ends = {*lists[0], *lists[1]}
            return {i: e for i, e in self._switch.commanded.items() if ends & {i, e}}
        return self._pairs(text)

    def _lists(self, text: str) -> list[tuple[int, ...]]:
        try:
            lists = port_lists(text.replace(" ", ""))
        except ValueError:
            raise Refused(-104, "Data type error") from None
        most = self._inputs + self._outputs
        if any(ports and not 1 <= min(ports) <= max(ports) <= most for ports in lists):
            raise Refused(-222, "Data out of range; no such port")
        return lists


def monitored(monitors: Monitors, inputs: int, outputs: int) -> range:
    """Return the ports that have a power monitor."""
    first = inputs + 1 if monitors == "outputs" else 1
    last = inputs if monitors == "inputs" else inputs + outputs
    return range(first, last + 1) if monitors else range(0)


def _two_lists(pairs: dict[int, int]) -> str:
    rows = sorted(pairs.items())
    return f"{port_list(i for i, _ in rows)},{port_list(e for _, e in rows)}"


def size_at(site: SwitchSite) -> tuple[int, int]:
    """Return inputs and outputs of the smallest Polatis switch with the ports of a site."""
    inputs = max(site.ingress)
    outputs = max(site.egress) - inputs
    if min(site.egress) <= inputs:
        raise ValueError("a Polatis switch numbers its outputs after all of its inputs")
    return inputs, outputs
