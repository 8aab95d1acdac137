"""Driver for DiCon MXS-9100 matrix switches, over their SCPI.

Inputs are ports 1..N, outputs N+1..N+M. `SCAN` moves an input even if it is in use, so the state is
read first. Commands used and their evidence: drivers/README.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial

from testbed.bench.contracts import Identity
from testbed.clock import Deadline
from testbed.fabric.device import Capabilities, State
from testbed_drivers.dialects.scpi import Scpi
from testbed_drivers.switches.descriptors.selectors import DiconMxsOptions
from testbed_drivers.switches.selector import Selector
from testbed_drivers.switches.switch import ChangeResult, capabilities_of, checked_state, sides
from testbed_drivers.transports.base import Endpoint

DENIED = ("*RST", "WEN")
"""What ends circuits of others, and what writes every move into memory that wears out."""
STATUS_WORDS = (
    "READY",
    "BUSY",
    "UNINITIALIZED",
    "INITINPROGRESS",
    "DISCONNECTED",
    "DEFECTIVE",
    "UNCONFIGURED",
)
"""What the switch says of itself; only the first of them is in order."""


class DiconMxs(Selector[DiconMxsOptions, Scpi]):
    """Driver of a DiCon MXS-9100 matrix switch."""

    def _new_dialect(self, endpoint: Endpoint) -> Scpi:
        return Scpi(endpoint, ends=(b"\r", b"\r"), denied=DENIED)

    def state(self, deadline: Deadline) -> State:
        """Read back the output to which every input was commanded."""
        inputs = sorted(self.capabilities.ingress)
        query = ";".join(f":ROUT{port}:SCAN?" for port in inputs)
        return self._dialect.query(query, partial(_state, self.capabilities), deadline)

    def unsteady(self, deadline: Deadline) -> Mapping[int, str]:
        """Return all cross-connects unless the status of the switch is READY."""
        word = self._dialect.query(":STAT?", _status, deadline)
        return {} if word == "READY" else dict.fromkeys(self.state(deadline), word)

    def _read_capabilities(self, identity: Identity, deadline: Deadline) -> Capabilities:
        return capabilities_of(self._options, sides(*self._options.size), steadiness=True)

    def _move(self, begin: State, wanted: State, deadline: Deadline) -> ChangeResult:
        orders = list(_orders(begin, wanted, len(self.capabilities.ingress)))
        return ChangeResult(*self._dialect.execute(orders, deadline))


def _orders(begin: State, wanted: State, inputs: int) -> Iterator[str]:
    """Yield what leads from one state to another; an output is free before it is given away."""
    given = set(wanted.values())
    for ingress, egress in sorted(begin.items()):
        if wanted.get(ingress) != egress and (ingress not in wanted or egress in given):
            yield f":ROUT{ingress}:SCAN 0"
    for ingress, egress in sorted(wanted.items()):
        if begin.get(ingress) != egress:
            yield f":ROUT{ingress}:SCAN {egress - inputs}"


def _state(can: Capabilities, reply: str) -> State:
    """Return the cross-connects of the outputs of all inputs in turn; output 0 is dark."""
    inputs = sorted(can.ingress)
    outputs = [field.strip() for field in re.split("[;,]", reply)]
    if len(outputs) != len(inputs) or not all(re.fullmatch(r"\d{1,3}", text) for text in outputs):
        raise ValueError(f"{reply!r} does not list an output for each of {len(inputs)} inputs")
    numbers = map(int, outputs)
    pairs = ((i, len(inputs) + number) for i, number in zip(inputs, numbers, strict=True) if number)
    return checked_state(pairs, can, reply, can.ingress | can.egress)


def _status(reply: str) -> str:
    if reply not in STATUS_WORDS:
        raise ValueError(f"{reply!r} is not one of {', '.join(STATUS_WORDS)}")
    return reply
