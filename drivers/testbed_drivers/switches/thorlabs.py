"""Driver for Thorlabs OSW12 (1×2) and OSW22 (2×2) MEMS switches on a serial line.

Inputs are ports 1..N, the two outputs come after them; position 1 is bar, 2 is cross. The device
has no identity query and acknowledges no command, and its first answer after a move may still be
the old position: so each move is followed by a query whose answer is used for its time only.
"""

from __future__ import annotations

from functools import partial

from testbed.bench.contracts import Identity
from testbed.clock import Deadline
from testbed.fabric.device import Capabilities, State
from testbed_drivers.dialects.text_line import TextLine
from testbed_drivers.switches.descriptors.selectors import ThorlabsOptions
from testbed_drivers.switches.selector import Selector, positions_of
from testbed_drivers.switches.switch import ChangeResult, capabilities_of, sides
from testbed_drivers.transports.base import Endpoint


class Thorlabs(Selector[ThorlabsOptions, TextLine]):
    """Driver of a Thorlabs OSW switch."""

    def _new_dialect(self, endpoint: Endpoint) -> TextLine:
        endpoint.require_no_serial("a Thorlabs OSW")
        self._positions = positions_of(int(self._options.model[3]))
        self._parse = partial(_state, self._positions)
        return TextLine(endpoint, ("S?", self._identity), ends=(b"\n", b"\r\n"))

    def state(self, deadline: Deadline) -> State:
        """Read back the position of the switch."""
        return self._dialect.query("S?", self._parse, deadline)

    def _read_capabilities(self, identity: Identity, deadline: Deadline) -> Capabilities:
        ports = sides(len(self._positions[0]), 2)
        return capabilities_of(self._options, ports, positions=self._positions)

    def _move(self, begin: State, wanted: State, deadline: Deadline) -> ChangeResult:
        number = self._positions.index(wanted) + 1
        commanded, answered, _ = self._dialect.execute([f"S {number}", "S?"], self._parse, deadline)
        return ChangeResult(commanded, answered)

    def _identity(self, reply: str) -> Identity:
        """Return the identity of what answers a position; it does not tell its own."""
        self._parse(reply)
        return Identity("Thorlabs", self._options.model, "", "")


def _state(positions: tuple[State, ...], reply: str) -> State:
    if reply not in ("1", "2"):
        raise ValueError(f"{reply!r} is neither position 1 nor 2")
    return positions[int(reply) - 1]
