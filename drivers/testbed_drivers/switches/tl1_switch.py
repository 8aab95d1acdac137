"""What switches over TL1 do alike.

A circuit is named there by one of its ends, or by a name that somebody else may have given it, so
what is there is read before anything is taken down.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from testbed.bench.contracts import Identity
from testbed.clock import Deadline
from testbed_drivers.dialects.tl1 import Tl1
from testbed_drivers.switches.piecewise import PiecewiseSwitch
from testbed_drivers.transports.options import Timeouts


class Tl1Switch(PiecewiseSwitch):
    """A `Switch` that speaks TL1."""

    def __init__(self, name: str, ports: frozenset[int], timeouts: Timeouts, tl1: Tl1) -> None:
        super().__init__(name, ports, timeouts)
        self._tl1 = tl1

    def identify(self, deadline: Deadline) -> Identity:
        """Ask who it is; refuse the wrong serial number."""
        return self._tl1.identify(deadline)

    def close(self) -> None:
        """Close the line; safe to call twice. Leaves all light as it is."""
        self._tl1.close()

    def _held(self, deadline: Deadline) -> AbstractContextManager[None]:
        return self._tl1.held(deadline)
