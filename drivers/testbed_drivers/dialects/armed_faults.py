"""The simulated faults of a far end: each has a name and is armed within a scope."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from testbed.plugins import nearest


@dataclass(slots=True)
class ArmedFault:
    """One armed fault and its scope; an empty scope means everywhere, until cleared."""

    name: str
    count: int | None = None
    """Strikes left; None: until cleared."""
    probability: float = 1.0
    command: str = ""
    """Only commands whose text contains this, in any case."""
    port: int | str | None = None
    """Only this port or outlet."""
    delay: float = 0.0
    """Seconds, for faults that take time."""

    def covers(self, command: str, ports: tuple[int | str, ...]) -> bool:
        """Return whether a command on the given ports is within the fault's scope."""
        return self.command.upper() in command.upper() and self.port in (None, *ports)


class ArmedFaults:
    """The faults of one far end, which may be armed while it answers."""

    def __init__(self, known: Mapping[str, str], seed: int) -> None:
        self.known = known
        self._chance = random.Random(seed)
        self._armed: list[ArmedFault] = []
        self._struck: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def are_armed(self) -> bool:
        """Return whether any fault is armed."""
        return bool(self._armed)

    def arm(self, fault: ArmedFault) -> None:
        """Arm a fault from now on; raise ValueError for an unknown name."""
        if fault.name not in self.known:
            raise ValueError(f"no fault {fault.name!r}; {nearest(fault.name, list(self.known))}")
        with self._lock:
            self._armed.append(fault)

    def clear(self, name: str) -> None:
        """Clear the faults of one name, or all of them; do nothing when none is armed."""
        with self._lock:
            self._armed = [fault for fault in self._armed if name and fault.name != name]

    def strikes(self, name: str, command: str = "", *ports: int | str) -> ArmedFault | None:
        """Return the fault that applies to a command, and count it; None when none applies."""
        if not self._armed:
            return None
        with self._lock:
            for fault in self._armed:
                if fault.name != name or fault.count == 0 or not fault.covers(command, ports):
                    continue
                if self._chance.random() >= fault.probability:
                    continue
                if fault.count is not None:
                    fault.count -= 1
                self._struck[name] += 1
                return fault
        return None

    def count_immediate(self, name: str) -> None:
        """Count a fault that takes effect at once, without being armed."""
        with self._lock:
            self._struck[name] += 1

    def struck(self, name: str) -> int:
        """Return how often a fault has taken effect so far."""
        with self._lock:
            return self._struck[name]
