"""The ports of one switch as a dead run left them, and how to restore them."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.bench.crossbar import Crossbar
from testbed.bench.rollback import RollbackTarget
from testbed.clock import Deadline
from testbed.commands import typed
from testbed.errors import NotKnown, UnsafeError
from testbed.fabric.change import Change
from testbed.fabric.device import State
from testbed.fabric.safe import reachable


class OrphanedCircuits(Crossbar):
    """The ports of one switch that a dead run may have changed."""

    _is_alone = False

    def adopt_undo(self, start: State, made: Iterable[tuple[int, int]], *, alone: bool) -> None:
        """Take over the initial state that a dead run recorded, and the cross-connects it made.

        `alone` says that no other run can have used this switch since.
        """
        self.start, self._is_alone = start, alone
        self._ours.made = {*made, *start.items()}

    def bring_back(self, deadline: Deadline) -> list[str]:
        """Restore the initial state, except where circuits of other clients use the ports.

        There, the safe state of the lab replaces it. Return sentences on what differs from the
        initial state; raise UnsafeError with what is still as the dead run left it.
        """
        present = self._left_behind(deadline)
        goal = reachable(self.start, present, self._ours.of(present), self.ports, self._limits)
        self._is_doubted = True  # the last order of the dead run may take effect late
        doubted = Change({}, self._made_besides(goal.target))
        self._go_back(RollbackTarget(goal.target, self.ports, goal.others, doubted), deadline)
        said = {
            "was made by another client and is not changed": goal.others,
            "was there before and cannot be restored": goal.missing,
            "is there instead, as the lab declares it safe": goal.instead,
        }
        return [
            f"{self.name}: {self._ours.named(cross)} {word}"
            for word, cross in said.items()
            if cross
        ]

    def _left_behind(self, deadline: Deadline) -> State:
        """Read back; presume the state that the dead run left where a switch cannot be read."""
        try:
            return self._switch.state(deadline)
        except NotKnown as error:
            if not self._is_alone:
                raise UnsafeError(
                    f"{self.name} has no read-back of its circuits, and others may have "
                    "used it since that run lost its lease",
                    hint="list what it is to hold in a file, set all of its cells with "
                    f"`{typed('switch', self.name, 'apply', 'wanted.yaml', '--force')}`, and give "
                    f"it back with `{typed('unlock', self.name, '--force')}`",
                ) from error
            self._switch.presume(self._made_besides(self.start))
            return self._switch.state(deadline)

    def _made_besides(self, target: State) -> State:
        """Return cross-connects made by the dead run that must go, each port at most once."""
        made = {i: e for i, e in sorted(self._ours.made) if target.get(i) != e}
        return {i: e for e, i in {e: i for i, e in made.items()}.items()}
