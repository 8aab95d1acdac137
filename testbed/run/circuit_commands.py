"""Carry out the changes of circuits that controllers command while a job goes on."""

from __future__ import annotations

from functools import partial

from testbed.bench.bench import Bench
from testbed.bench.fabric import Fabric
from testbed.clock import Deadline
from testbed.control.controller import ChangeCircuits, ChangeFailed, CircuitsChanged
from testbed.errors import UnsafeError
from testbed.fabric.circuits import Matching
from testbed.record.log import EventLog
from testbed.run.active_controller import ActiveController
from testbed.run.circuits import make_identified, paced
from testbed.run.controllers import Handlers
from testbed.run.inbox import Inbox

_CHANGE_LIMIT = 10.0
_LINK_LIMIT = 20.0
"""Seconds that links may take to come up: sixteen hosts of a twin share two processors."""


class CircuitCommands:
    """What carries out changes of circuits on one bench.

    A change is made when the switches read it back. Links are asked for the identities of their
    ends only where it is commanded: time slots would not wait for that, and jobs verify values.
    """

    def __init__(self, bench: Bench, inbox: Inbox, log: EventLog) -> None:
        self._bench = bench
        self._inbox = inbox
        self._log = log

    @property
    def handlers(self) -> Handlers:
        """Return what carries out each type of command."""
        return {ChangeCircuits: self._change}

    def _change(self, command: ChangeCircuits, sender: ActiveController) -> None:
        sender.in_worker(lambda: self._changed(command, sender), ChangeFailed)

    def _changed(self, command: ChangeCircuits, sender: ActiveController) -> CircuitsChanged:
        """Make a change; one that could not be rolled back ends the run, besides being failed."""
        deadline, moved = Deadline.after(_CHANGE_LIMIT), (command.remove, command.add)
        (job,) = {scope.job for scope in sender.controller.scopes if scope.of == "circuits"}
        change = partial(change_circuits, self._bench.fabric, job, *moved, deadline, sender.name)
        try:
            if command.identify:
                made = partial(make_identified, self._bench, command.add, self._log, change)
                made(light=_LINK_LIMIT, interval=paced(command.add))
            else:
                change()
        except UnsafeError as error:
            self._inbox.stop(error)
            raise
        return CircuitsChanged()


def change_circuits(
    fabric: Fabric, job: str, remove: Matching, add: Matching, deadline: Deadline, by: str
) -> None:
    """Remove some circuits of a job and add others, all or nothing; raise as `Fabric.change`."""
    fabric.set_circuits(job, (fabric.owned.of(job) - remove) | add, deadline, by)
