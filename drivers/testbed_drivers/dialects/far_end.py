"""What all far ends share: faults that can be armed from outside, and lines that can be hung up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakSet

from testbed.bench.sites import Scheduler
from testbed_drivers.dialects import far_end_wire
from testbed_drivers.dialects.armed_faults import Armed, ArmedFaults
from testbed_drivers.dialects.far_end_wire import Wire


class FarEnd:
    """The device side of an instrument, without its language and its inside.

    `lock` is held while a command is carried out. `faults` are those of the language and of the
    inside; those of the wire are added. `at_once` are the faults that happen when they are armed.
    """

    def __init__(self, faults: Mapping[str, str], scheduler: Scheduler, seed: int) -> None:
        self.lock = threading.RLock()
        self.faults = ArmedFaults({**far_end_wire.FAULTS, **faults}, seed)
        self.at_once: dict[str, Callable[[Armed], None]] = {}
        self.scheduler = scheduler
        self._seed = seed
        self._wires: WeakSet[Wire] = WeakSet()

    @property
    def known_faults(self) -> Mapping[str, str]:
        """Return what this far end can be told to do wrong, with what each fault does."""
        return self.faults.known

    def fault(self, name: str, **scope: Any) -> None:
        """Misbehave from now on as `name` says, within `scope` (the fields of `Armed`)."""
        fault = Armed(name, **scope)
        if action := self.at_once.get(name):
            action(fault)
            self.faults.happened(name)
        else:
            self.faults.arm(fault)

    def clear(self, name: str = "") -> None:
        """End one fault, or all of them."""
        self.faults.clear(name)

    def struck(self, name: str) -> int:
        """Return how often a fault has struck so far."""
        return self.faults.struck(name)

    def wire(
        self, send: Callable[[bytes], None], hang_up: Callable[[], None], end: bytes = b""
    ) -> Wire:
        """Return a client's way back; `end` is what ends a reply there."""
        wire = Wire(send, hang_up, end, self.faults, self.scheduler, self._seed)
        self._wires.add(wire)
        return wire

    def hang_up(self) -> None:
        """Hang up on every client."""
        for wire in list(self._wires):
            wire.hang_up()
