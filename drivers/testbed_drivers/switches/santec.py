"""Driver for one 1×N module of a Santec (JGR) OSX or SX1, over its SCPI.

The common fibre is port 1, channel n is port n + 1; the module always connects one of them. It
answers before it has moved: `unsteady` queries whether it still moves. A motor may sweep over
channels in between, whose receivers must tolerate a flash of light (drivers/README.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from testbed.bench.contracts import Identity
from testbed.clock import Deadline
from testbed.fabric.device import Capabilities, State
from testbed_drivers.dialects.scpi import Scpi
from testbed_drivers.switches.descriptors.selectors import SantecOptions
from testbed_drivers.switches.selector import Selector, channels
from testbed_drivers.switches.switch import ChangeResult, capabilities_of, sides, size
from testbed_drivers.transports.base import Endpoint

_MODULE = re.compile(r".*x(\d+)")


class Santec(Selector[SantecOptions, Scpi]):
    """Driver of one module of an OSX or SX1; one made `beside` another shares its line."""

    def _new_dialect(self, endpoint: Endpoint) -> Scpi:
        self._header = f":ROUT{self._options.module}:CHAN"
        home = f"ROUTe{self._options.module}:HOMe"
        if self._beside:
            return self._beside._dialect.beside(self._name, denied=(home,))
        denied = ("*RST", "ROUTe:CHANnel:ALL", home)
        return Scpi(endpoint, ends=(b"\n", b"\n"), denied=denied)

    def state(self, deadline: Deadline) -> State:
        """Read back the channel that was commanded last."""
        parse = partial(_state, self.capabilities.positions)
        return self._dialect.query(f"{self._header}?", parse, deadline)

    def unsteady(self, deadline: Deadline) -> Mapping[int, str]:
        """Return the cross-connect while the device is still executing a command."""
        condition = self._dialect.query(":STAT:OPER:COND?", int, deadline)
        return {1: f"operation condition {condition}"} if condition else {}

    def _read_capabilities(self, identity: Identity, deadline: Deadline) -> Capabilities:
        parse = partial(_count, self._options.module)
        count = self._dialect.query(":MOD:CAT?", parse, deadline)
        return capabilities_of(
            self._options, sides(1, count), positions=channels(count), steadiness=True, sweeps=True
        )

    def _move(self, begin: State, wanted: State, deadline: Deadline) -> ChangeResult:
        return ChangeResult(*self._dialect.execute([f"{self._header} {wanted[1] - 1}"], deadline))


def _state(positions: tuple[State, ...], reply: str) -> State:
    channel = int(reply)
    if not 1 <= channel <= len(positions):
        raise ValueError(f"{reply!r} is not a channel from 1 to {len(positions)}")
    return positions[channel - 1]


def _count(module: int, reply: str) -> int:
    """Return the channels of a module out of `"SX 1Ax24","SX 2Bx12"`."""
    modules = [text.strip(' "') for text in reply.split(",")]
    if module > len(modules) or not (match := _MODULE.fullmatch(modules[module - 1])):
        raise ValueError(f"{reply!r} has no channels of module {module}")
    return size(1, int(match[1]))[1]
