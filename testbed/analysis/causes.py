"""Which events of a trial belong to the repair of its fault, by the causes that they name.

An event names the one that led to it, so a change of circuits leads back to the decision that asked
for it. Records without causes say less: there a policy's changes have the subject `recovery`, and
all that happens meanwhile counts as the repair's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from testbed.events import Event
from testbed.events.origin import Origin

DECISION = "recovery.decided"
_OF_A_POLICY = "recovery"
"""The subject of changes by a policy, in records without causes."""


class Repairs:
    """The decisions to repair something, and all that they led to; events come in their order."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._led: set[int] = set()
        self._origins: set[Origin] = set()
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Take an event in, after those that led to it."""
        if event.kind == DECISION:
            self._origins.add(replace(event.origin, cause=None))
        if event.kind == DECISION or event.origin.cause in self._led:
            self._led.add(event.seq)

    def include(self, event: Event) -> bool:
        """Tell whether an event is part of a repair, or nothing says that it is not.

        One that names its cause is part of it when a decision led to it. One that does not is
        unless it names another job or another controller than every decision.
        """
        if event.kind == DECISION or event.origin.cause is not None:
            return event.seq in self._led
        if not self._origins:
            return True
        return any(_agree(event.origin, decision) for decision in self._origins)

    def include_change(self, event: Event) -> bool:
        """Tell whether a change made circuits for a repair; a fence only removes some."""
        if event.origin.cause is None:
            return event.subject == _OF_A_POLICY
        return event.seq in self._led and bool(event.data.get("added"))


def _agree(one: Origin, other: Origin) -> bool:
    """Tell whether two origins name no different jobs and no different controllers."""
    pairs = ((one.job, other.job), (one.controller, other.controller))
    return all(a == b or not (a and b) for a, b in pairs)
