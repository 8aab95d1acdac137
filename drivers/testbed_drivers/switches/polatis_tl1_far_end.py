"""A simulated Polatis switch: ports, mirrors with a settle time, and its TL1.

Assumptions beyond public documents are listed in drivers/README.md: ENT-PATCH with a port that is
in use is refused as a whole unless the very same pairs are connected already; DLT-PATCH of a
circuit that does not exist does nothing; a monitor without light reads -60.
"""

from __future__ import annotations

from collections.abc import Sequence

from testbed.bench.sites import SwitchSite
from testbed_drivers.dialects.tl1_commands import Command, unlisted
from testbed_drivers.dialects.tl1_far_end import Denied, Handler, Tl1FarEnd, account
from testbed_drivers.switches import simulated_switch
from testbed_drivers.switches.descriptors.polatis import PolatisTl1Options
from testbed_drivers.switches.polatis_far_end import monitored, size_at
from testbed_drivers.switches.simulated_switch import SimulatedSwitch

FAULTS = {name: what for name, what in simulated_switch.FAULTS.items() if name != "failed"}
"""What it can do wrong: how TL1 shows a port that has failed is not public."""
_FACTORY_ACCOUNTS = {"root": "root", "admin": "root"}
_NO_LIGHT = -60.0


class PolatisTl1FarEnd(Tl1FarEnd):
    """A simulated Polatis switch with TL1; dark after a loss of power."""

    def __init__(self, site: SwitchSite, options: PolatisTl1Options | None = None) -> None:
        options = options or PolatisTl1Options()
        self._inputs, self._outputs = options.size or size_at(site)
        self._serial = site.serial
        monitors = True if options.monitors is None else options.monitors
        self._monitored = monitored(monitors, self._inputs, self._outputs)
        accounts = account(options.user, options.password) or _FACTORY_ACCOUNTS
        super().__init__("OCS", accounts, self._commands(), FAULTS, site)
        self._switch = SimulatedSwitch(site, self.faults, self.lock)
        self.at_once |= self._switch.at_once(self.hang_up)

    def _commands(self) -> dict[str, Handler]:
        return {
            "ENT-PATCH": self._enter,
            "DLT-PATCH": self._delete,
            "RTRV-PATCH": self._patches,
            "RTRV-EQPT": self._equipment,
            "RTRV-INV": lambda _: [f"OCS:SN={self._serial}"],
            "RTRV-NETYPE": lambda _: [f"Polatis,{self._model},OCS,6.5.2.18"],
            "RTRV-PORT-POWER": self._power,
            "ED-EQPT": self._edit,
        }

    @property
    def _model(self) -> str:
        return f"VST-{self._inputs}x{self._outputs}-LU1-DMHNS"

    def _enter(self, request: Command) -> Sequence[str]:
        lists = request.aid.split(",")
        if len(lists) != 2:
            raise Denied("IPMS", "Input, Parameter Missing")
        ends = [self._ports(text) for text in lists]
        if len(ends[0]) != len(ends[1]):
            raise Denied("IIAC", "Lists of different lengths")
        pairs = dict(tuple(sorted(pair)) for pair in zip(*ends, strict=True))
        if len({*pairs, *pairs.values()}) != 2 * len(ends[0]):
            raise Denied("IIAC", "A port is named twice")
        if any(not i <= self._inputs < e for i, e in pairs.items()):
            raise Denied("IIAC", "Not an input and an output")
        for port in self._switch.in_use(pairs).values():
            raise Denied("IEAE", f"Port {port} is in use")
        self._switch.connect(pairs)
        return ()

    def _delete(self, request: Command) -> Sequence[str]:
        ports = set(self._named(request))
        commanded = self._switch.commanded
        self._switch.disconnect({i: e for i, e in commanded.items() if ports & {i, e}})
        return ()

    def _patches(self, request: Command) -> Sequence[str]:
        ports = set(self._named(request) if request.aid else self._all)
        rows = sorted(self._switch.read_back().items())
        return [f"{i},{e}" for i, e in rows if ports & {i, e}]

    def _equipment(self, request: Command) -> Sequence[str]:
        if (request.aid, request.block(2)) != ("SYSTEM", "PARAMETER=SIZE"):
            raise Denied("IDNV", "Input, Data Not Valid")
        return [f"SYSTEM:SIZE={self._inputs}x{self._outputs}"]

    def _power(self, request: Command) -> Sequence[str]:
        ports = self._named(request)
        if unmonitored := [port for port in ports if port not in self._monitored]:
            raise Denied("IIAC", f"No monitor at port {unmonitored[0]}")
        levels = {port: self._switch.power(port) for port in ports}
        return [f"{p}:{_NO_LIGHT if dbm is None else dbm:.2f}" for p, dbm in levels.items()]

    def _edit(self, request: Command) -> Sequence[str]:
        key, _, minutes = request.block(2).partition("=")
        if (request.aid, key) != ("TIMEOUT", "ADMIN") or not minutes.isdigit():
            raise Denied("IDNV", "Input, Data Not Valid")
        self.idle_seconds = 60.0 * int(minutes)
        return ()

    @property
    def _all(self) -> range:
        return range(1, self._inputs + self._outputs + 1)

    def _named(self, request: Command) -> list[int]:
        """Return the ports of a list, or all of them."""
        return list(self._all) if request.aid.upper() == "ALL" else self._ports(request.aid)

    def _ports(self, text: str) -> list[int]:
        try:
            ports = unlisted(text)
        except ValueError:
            raise Denied("IIAC", "Invalid Access Identifier") from None
        if any(port not in self._all for port in ports):
            raise Denied("IIAC", "No such port")
        return ports
