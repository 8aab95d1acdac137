"""The base of all simulated far ends: faults that can be armed, and lines that can be cut."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakSet

from testbed.bench.sites import FarEndSession, Site, never
from testbed_drivers.dialects import client_connection
from testbed_drivers.dialects.armed_faults import ArmedFault, ArmedFaults
from testbed_drivers.dialects.client_connection import ClientConnection

ORDER_FAULTS = {
    "error": "refuses a command in the device's own words",
    "busy": "refuses what it is told for `delay` seconds",
}
"""What every far end can be told to do wrong whose dialect has refusals."""
DEVICE_FAULTS = {
    "stuck": "accepts a change of `port`, but neither the device nor the read-back follows",
    "lie": "accepts a change of `port` and reads it back as done, but light or power stays",
}
"""What every device can be told to do wrong that carries out changes."""


class FarEnd(ABC):
    """The device side of an instrument; subclasses add its protocol and its state.

    `lock` is held while a command is carried out. `faults` are those of the protocol and of the
    device; those of the connection are added. `at_once` are the faults that take effect when they
    are armed. `end` ends every reply.
    """

    end = b""

    def __init__(self, faults: Mapping[str, str], site: Site) -> None:
        self.lock = threading.RLock()
        self.faults = ArmedFaults({**client_connection.FAULTS, **faults}, site.seed)
        self.at_once: dict[str, Callable[[ArmedFault], None]] = {}
        if "busy" in faults:
            self.at_once["busy"] = self._be_busy
        self.scheduler = site.scheduler
        self._seed = site.seed
        self._connections: WeakSet[ClientConnection] = WeakSet()
        self._busy_until = 0.0

    def session(
        self,
        send: Callable[[bytes], None],
        *,
        serial: bool = False,
        hang_up: Callable[[], None] = never,
    ) -> FarEndSession:
        """Open a session whose replies go to `send`."""
        end = self._reply_end(serial)
        connection = ClientConnection(send, hang_up, end, self.faults, self.scheduler, self._seed)
        self._connections.add(connection)
        return self._conversation(connection)

    @property
    def known_faults(self) -> Mapping[str, str]:
        """Return the faults that this far end can simulate, each with its effect."""
        return self.faults.known

    def fault(self, name: str, **scope: Any) -> None:
        """Simulate the fault `name` from now on, within `scope` (the fields of `ArmedFault`)."""
        fault = ArmedFault(name, **scope)
        if action := self.at_once.get(name):
            action(fault)
            self.faults.count_immediate(name)
        else:
            self.faults.arm(fault)

    def clear(self, name: str = "") -> None:
        """Clear one fault, or all of them."""
        self.faults.clear(name)

    def struck(self, name: str) -> int:
        """Return how often a fault has taken effect so far."""
        return self.faults.struck(name)

    @property
    def is_busy(self) -> bool:
        """Return whether the far end refuses commands because of the fault `busy`."""
        return self.scheduler.now() < self._busy_until

    def hang_up(self) -> None:
        """Close the connections of all clients."""
        for connection in list(self._connections):
            connection.hang_up()

    def _reply_end(self, serial: bool) -> bytes:
        """Return what ends a reply, given whether the client came over a serial line."""
        return self.end

    @abstractmethod
    def _conversation(self, connection: ClientConnection) -> FarEndSession:
        """Return the conversation with a client whose way back is `connection`."""

    def _be_busy(self, fault: ArmedFault) -> None:
        self._busy_until = self.scheduler.now() + fault.delay
