"""Carry out the changes of rails, each rail by itself."""

from __future__ import annotations

from functools import partial
from threading import Event

from testbed.bench.bench import Bench
from testbed.clock import Deadline
from testbed.control.rails import MoveRail, RailMoved, RailRefused
from testbed.errors import LabError, UnsafeError
from testbed.run.active_controller import ActiveController
from testbed.run.controllers import Handlers
from testbed.run.inbox import Inbox

_CHANGE_LIMIT = 10.0


class RailCommands:
    """What carries out changes of the rails of one job on one bench.

    Each rail owns its circuits, so that rails do not wait for each other. Those of one rail are
    changed one after the other, in the order of the commands, as `Fabric.change` does for an owner.
    """

    def __init__(self, bench: Bench, inbox: Inbox, job: str) -> None:
        self._bench, self._inbox, self._job = bench, inbox, job
        self._latest: dict[str, Event] = {}
        """Of each rail, what is set when its latest change has ended."""

    @property
    def handlers(self) -> Handlers:
        """Return what carries out the command."""
        return {MoveRail: self._move}

    def owner(self, rail: str) -> str:
        """Return who owns the circuits of a rail."""
        return f"{self._job}.{rail}"

    def _move(self, command: MoveRail, sender: ActiveController) -> None:
        before, ended = self._latest.get(command.rail), Event()
        self._latest[command.rail] = ended
        number = command.move.number
        sender.in_worker(
            lambda: self._moved(command, sender.name, before, ended),
            partial(RailRefused, command.rail, number),
        )

    def _moved(self, command: MoveRail, by: str, before: Event | None, ended: Event) -> RailMoved:
        """Make a change; one that could not be rolled back ends the run, besides being failed."""
        deadline, move = Deadline.after(_CHANGE_LIMIT), command.move
        try:
            if before is not None and not before.wait(deadline.left):
                raise LabError(f"the change of {command.rail} before it has not ended")
            owner = self.owner(command.rail)
            self._bench.fabric.change(owner, move.remove, move.add, deadline, by)
        except UnsafeError as error:
            self._inbox.stop(error)
            raise
        finally:
            ended.set()
        return RailMoved(command.rail, move.number)
