"""Circuits that ranks ask for: made, verified from both ends, and announced to the ranks.

A request counts when all ranks that it names have made it: each of them is through with what it
had to send over the circuits that go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from testbed.bench.bench import Bench
from testbed.clock import Deadline, now
from testbed.errors import TestbedError
from testbed.fabric.circuits import Matching
from testbed.record.log import EventLog
from testbed.run.circuits import make_circuits

_LIMIT = 10.0

Tell = Callable[[int, Mapping[str, Any]], object]


@dataclass(slots=True)
class CircuitRequests:
    """What the ranks of one job ask for; `circuits` are all that they may ask for, by number."""

    bench: Bench
    log: EventLog
    circuits: Sequence[Matching]
    tell: Tell
    """Sends a message to a rank."""
    failure: str = ""
    """Why a request could not be fulfilled, when one could not."""
    _asked: dict[tuple[int, int], set[int]] = field(default_factory=dict)

    def add(self, rank: int, said: Mapping[str, Any]) -> bool:
        """Take a rank's request; tell whether all ranks that it names have made it now."""
        key = (said["generation"], said["number"])
        asked = self._asked.setdefault(key, set())
        asked.add(rank)
        if not asked >= set(said["of"]):
            return False
        del self._asked[key]
        return True

    def fulfil(self, said: Mapping[str, Any]) -> None:
        """Make the circuits and tell the ranks that asked; blocks. `failure` says what failed."""
        began, wanted = now(), self.circuits[said["circuits"]]
        fresh = wanted - self.bench.fabric.circuits
        try:
            make_circuits(self.bench, wanted, self.log, Deadline.after(_LIMIT), verify=fresh)
        except TestbedError as error:
            self.failure = f"circuits that the ranks asked for could not be made: {error}"
            return
        answer = {key: said[key] for key in ("generation", "number")}
        for rank in said["of"]:
            self.tell(rank, {"do": "lit", **answer})
        self.log.append("circuits.lit", seconds=now() - began, circuits=said["circuits"], **answer)
