"""Driver for DiCon 1×N MEMS modules on a serial line.

The common fibre is port 1, channel n is port n + 1, channel 0 is dark. Set commands have no answer
and the module reports no errors, so each is followed by a query: drivers/README.md has the
evidence.
"""

from __future__ import annotations

import re
from functools import partial

from testbed.bench.contracts import Identity
from testbed.clock import Deadline
from testbed.fabric.device import Capabilities, State
from testbed_drivers.dialects.session import SerialNumber
from testbed_drivers.dialects.text_line import TextLine
from testbed_drivers.switches.descriptors.selectors import DiconOptions
from testbed_drivers.switches.selector import Selector
from testbed_drivers.switches.switch import ChangeResult, capabilities_of, sides
from testbed_drivers.transports.base import Endpoint

_CHANNEL = re.compile(r"\d{1,3}")


class Dicon(Selector[DiconOptions, TextLine]):
    """Driver of a DiCon 1×N module."""

    def _new_dialect(self, endpoint: Endpoint) -> TextLine:
        self._expected = endpoint.serial
        self._serial = SerialNumber(endpoint.instrument, endpoint.serial)
        return TextLine(endpoint, ("ID?", self._identity), ends=(b"\r", b"\n"))

    def state(self, deadline: Deadline) -> State:
        """Read back the channel that was commanded last."""
        return self._dialect.query("I1?", partial(_state, self.capabilities), deadline)

    def _read_capabilities(self, identity: Identity, deadline: Deadline) -> Capabilities:
        return capabilities_of(
            self._options, sides(1, self._dialect.query("CF?", _count, deadline))
        )

    def _move(self, begin: State, wanted: State, deadline: Deadline) -> ChangeResult:
        channel = wanted[1] - 1 if wanted else 0
        parse = partial(_state, self.capabilities)
        commanded, answered, _ = self._dialect.execute([f"I1 {channel}", "I1?"], parse, deadline)
        return ChangeResult(commanded, answered)

    def _identity(self, reply: str) -> Identity:
        """Return maker, model, serial number and firmware.

        How the modules write this is not public. Another form is taken for a serial number when
        the lab file names just that.
        """
        parts = [part.strip() for part in reply.split(",")]
        if len(parts) == 4 and all(parts):
            return self._serial.check(Identity(*parts))
        if reply == self._expected:
            self._serial.check(Identity("DiCon", "1×N module", reply, ""))
            return Identity("DiCon", reply, "", "")  # many may answer just so
        raise ValueError(
            f"{reply!r} is not maker, model, serial number, firmware; "
            "if this is how it answers, write that as 'identity' in the lab file"
        )


def _state(can: Capabilities, reply: str) -> State:
    channel = int(reply) if _CHANNEL.fullmatch(reply) else -1
    if channel != 0 and channel + 1 not in can.egress:
        raise ValueError(f"{reply!r} is not a channel from 0 to {len(can.egress)}")
    return {1: channel + 1} if channel else {}


def _count(reply: str) -> int:
    """Return the second field: the number of channels."""
    fields = reply.split(",")
    if len(fields) < 2 or not _CHANNEL.fullmatch(fields[1].strip()) or not int(fields[1]):
        raise ValueError(f"{reply!r}: the second field must be a positive channel count")
    return int(fields[1])
