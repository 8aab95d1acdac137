"""How the queue of a lab let a run start, and what it had expected of the wait."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from testbed.events import Event
from testbed.units import lasting


@dataclass(frozen=True, slots=True)
class Admission:
    """The policy of a queue, the wait in seconds, and what the queue expected as the run came.

    The expectation is a model: what runs and waits before it takes as long as experiments of its
    name took before, or its limit. It is None where an entry had no turn yet.
    """

    policy: str
    waited: float
    expected: float | None
    behind: str
    """What it waited for as it came; empty where for nothing."""

    def __str__(self) -> str:
        if not self.behind:
            return f"by {self.policy}, at once: nothing was in its way"
        model = "unknown" if self.expected is None else lasting(self.expected)
        return f"by {self.policy}, after {lasting(self.waited)} (expected {model}): {self.behind}"

    def to_json(self) -> dict[str, Any]:
        """Return it as in `summary.json`."""
        return asdict(self)


def admission_of(events: Iterable[Event]) -> Admission | None:
    """Return how a run was let in; None for one that waited in no queue."""
    for event in events:
        data = event.data
        if event.kind == "lease.taken" and "waited" in data:
            return Admission(data["policy"], data["waited"], data["expected"], data["behind"])
    return None
