"""Changes of rails: what they remove goes in order, and what they add settles side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

from testbed.bench.fabric import Fabric
from testbed.bench.multi_switch_change import FabricChange
from testbed.clock import Deadline
from testbed.errors import LabError
from testbed.fabric.circuits import Matching


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn of one change of a rail."""

    rail: str
    _before: Event | None
    _cleared: Event = field(default_factory=Event)

    def wait(self, deadline: Deadline) -> None:
        """Wait until the change before has removed what must go; raise LabError where it is late.

        `end` must be called in any case.
        """
        if self._before is not None and not self._before.wait(deadline.left):
            raise LabError(f"the change of {self.rail} before it has not ended")

    def end(self) -> None:
        """Let the next change begin. Safe to call twice."""
        self._cleared.set()


class RailTurns:
    """The order of the changes of each rail; `next` is called in that order, by one thread."""

    def __init__(self) -> None:
        self._latest: dict[str, Turn] = {}

    def next(self, rail: str) -> Turn:
        """Return the turn of the next change of a rail."""
        before = self._latest.get(rail)
        turn = Turn(rail, None if before is None else before._cleared)
        self._latest[rail] = turn
        return turn


def repoint(
    fabric: Fabric,
    owner: str,
    remove: Matching,
    add: Matching,
    turn: Turn,
    deadline: Deadline,
    by: str,
    check: Callable[[], None] = lambda: None,
) -> FabricChange:
    """Remove circuits, whoever owns them, and add others for an owner; return the last change.

    It is one change, or two where one lasts until mirrors stand: the next change of the rail need
    not wait for that. `check` raises where nothing may be added any more. Errors are those of
    `Fabric.change`.
    """
    if remove:
        fabric.owned.give(remove, owner, deadline)
    if remove and not fabric.settles_unseen:
        done = fabric.change(owner, remove, frozenset(), deadline, by)
        turn.end()
        if not add:
            return done
        check()
        remove = frozenset()
    done = fabric.change(owner, remove, add - fabric.owned.of(owner), deadline, by)
    turn.end()
    return done
