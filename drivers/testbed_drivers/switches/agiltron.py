"""Driver for Agiltron FF 1×N switches on a serial line.

The common fibre is port 1, channel n is port n + 1. Frames are four bytes: `01 12 00 n` goes to a
channel and is echoed, `01 11 00 00` asks, and the last byte of the answer is the channel. The
device has no identity query. Evidence: drivers/README.md.
"""

from __future__ import annotations

from testbed.bench.contracts import Identity
from testbed.clock import Deadline
from testbed.fabric.device import Capabilities, State
from testbed_drivers.dialects.frames import Frames
from testbed_drivers.switches.descriptors.selectors import AgiltronOptions
from testbed_drivers.switches.selector import Selector, channels
from testbed_drivers.switches.switch import ChangeResult, capabilities_of, sides
from testbed_drivers.transports.base import Endpoint

GO = b"\x01\x12\x00"
ASK = b"\x01\x11\x00"


class Agiltron(Selector[AgiltronOptions, Frames]):
    """An Agiltron FF 1×N switch on a serial line."""

    def _new_dialect(self, endpoint: Endpoint) -> Frames:
        endpoint.require_no_serial("an Agiltron FF")
        self._positions = channels(self._options.channels)
        return Frames(endpoint, (ASK + b"\0", self._identity), length=4)

    def state(self, deadline: Deadline) -> State:
        """Read back the channel of the switch."""
        return self._dialect.query(ASK + b"\0", self._asked, deadline)

    def _read_capabilities(self, identity: Identity, deadline: Deadline) -> Capabilities:
        ports = sides(1, self._options.channels)
        return capabilities_of(self._options, ports, positions=self._positions)

    def _move(self, begin: State, wanted: State, deadline: Deadline) -> ChangeResult:
        order = GO + bytes([self._positions.index(wanted) + 1])

        def echoed(frame: bytes) -> None:
            if frame != order:
                raise ValueError(f"{frame.hex(' ')}, which is not the echo of the command")

        commanded, answered, _ = self._dialect.execute([order], echoed, deadline)
        return ChangeResult(commanded, answered)

    def _identity(self, frame: bytes) -> Identity:
        """Return the identity of what answers a channel; it does not tell its own."""
        self._asked(frame)
        return Identity("Agiltron", f"FF 1x{self._options.channels}", "", "")

    def _asked(self, frame: bytes) -> State:
        if frame[:3] != ASK:
            raise ValueError(f"{frame.hex(' ')}, which is not a reply to the channel query")
        if not 1 <= frame[3] <= len(self._positions):
            raise ValueError(
                f"{frame.hex(' ')}, which names channel {frame[3]} of 1 to {len(self._positions)}"
            )
        return self._positions[frame[3] - 1]
