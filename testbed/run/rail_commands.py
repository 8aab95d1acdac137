"""Carry out the changes of rails, each rail by itself."""

from __future__ import annotations

from functools import partial
from typing import Any

from testbed.bench.bench import Bench
from testbed.bench.rail_changes import RailTurns, Turn, repoint
from testbed.clock import Deadline
from testbed.control.rail_moves import (
    MoveRail,
    RailMoved,
    RailRefused,
    RecordAnswer,
    RecordDecision,
    RecordHeld,
)
from testbed.errors import LabError, UnsafeError
from testbed.events.origin import Origin, attributed, current_origin
from testbed.fabric.circuits import Circuit, Matching
from testbed.rails.stage import Stage
from testbed.record.log import EventLog
from testbed.run.active_controller import ActiveController
from testbed.run.circuits import make_identified
from testbed.run.controllers import Handlers
from testbed.run.inbox import Inbox
from testbed.run.running_job import RunningJob

_CHANGE_LIMIT = 10.0
_LINK_LIMIT = 20.0
"""Seconds that links may take to come up: with some network cards 6 s (arXiv 2602.12521)."""


class RailCommands:
    """What carries out changes of the rails of one job on one bench.

    Each group of a rail owns its circuits, for one owner's changes take turns. What changes of one
    rail remove goes in the order of the commands; what they add settles side by side.
    A change is made when a question of one end of each new circuit was answered by the right port
    over its light, where the bench has hosts: so both directions carry what ranks send. What they
    send before is lost, and TCP repeats it only after 200 ms.
    """

    def __init__(self, bench: Bench, inbox: Inbox, log: EventLog, job: str) -> None:
        self._bench, self._inbox, self._log, self._job = bench, inbox, log, job
        self._turns = RailTurns()
        self._held: dict[tuple[str, str], int] = {}
        """By rail and group, the number of the event that says its last stage was held back."""

    @property
    def handlers(self) -> Handlers:
        """Return what carries out the commands."""
        return {
            MoveRail: self._move,
            RecordHeld: self._hold,
            RecordAnswer: self._record,
            RecordDecision: self._decide,
        }

    def owner(self, rail: str, group: str) -> str:
        """Return who owns the circuits of a group on a rail."""
        return f"{self._job}.{rail}.{group}"

    def _hold(self, command: RecordHeld, sender: ActiveController) -> None:
        rail, stage, seconds = command.rail, command.stage, command.seconds
        event = self._log.append(
            "stage.held", stage.group, rail=rail, stage=_row(stage), seconds=seconds
        )
        self._held[rail, stage.group] = event.seq

    def _decide(self, command: RecordDecision, sender: ActiveController) -> None:
        costs, paths = command.costs, command.paths
        self._log.append(
            "stages.forwarded",
            self._job,
            forward=command.forward,
            repointing=costs.repointing,
            forwarding=costs.forwarding,
            paths={group: sorted(map(str, circuits)) for group, circuits in paths.items()},
        )

    def _record(self, command: RecordAnswer, sender: ActiveController) -> None:
        stage, about = command.stage, {"changed": command.changed, "seconds": command.seconds}
        self._log.append("stage.lit", stage.group, rail=command.rail, stage=_row(stage), **about)

    def _move(self, command: MoveRail, sender: ActiveController) -> None:
        turn = self._turns.next(command.rail)
        number, cause = command.move.number, current_origin().cause
        if cause is None:  # a timer's: what was held back is due
            cause = self._held.get((command.rail, command.move.stage.group))
        with attributed(Origin(cause=cause)):
            sender.in_worker(
                lambda: self._moved(command, sender, turn),
                partial(RailRefused, command.rail, number),
            )

    def _moved(self, command: MoveRail, sender: ActiveController, turn: Turn) -> RailMoved | None:
        """Make a change; one that could not be rolled back ends the run, besides being failed.

        Nothing is done, and told, of one to a host that was given up: its ranks are replaced, or
        the job ends.
        """
        deadline, move = Deadline.after(_CHANGE_LIMIT), command.move
        change = partial(self._change, command, sender, turn, deadline)
        try:
            turn.wait(deadline)
            _check_goes_on(sender)
            if not self._are_there(move.add):
                return None
            if self._bench.hosts:
                identified = partial(make_identified, ends_that_ask=1, light=_LINK_LIMIT)
                wanted = partial(self._is_wanted, sender)
                identified(self._bench, move.add, self._log, change, is_wanted=wanted)
            else:
                change()
        except UnsafeError as error:
            self._inbox.stop(error)
            raise
        finally:
            turn.end()
        return RailMoved(command.rail, move.number) if self._are_there(move.add) else None

    def _change(
        self, command: MoveRail, sender: ActiveController, turn: Turn, deadline: Deadline
    ) -> None:
        """Remove and add; what else is in the way goes, too: it was for ranks replaced since."""
        fabric, move, by = self._bench.fabric, command.move, sender.name
        owner, owned = self.owner(command.rail, move.stage.group), fabric.owned
        remove = move.remove & owned.all  # an attempt before may have made some of it
        remove |= self._left_behind(command.rail, move.add)
        check = partial(_check_goes_on, sender)
        repoint(fabric, owner, remove, move.add, turn, deadline, by, check)
        if not self._are_there(move.add):  # a fence has taken down what a host had before this
            fabric.change(owner, move.add, frozenset(), deadline, by)

    def _left_behind(self, rail: str, add: Matching) -> Matching:
        """Return the circuits of a rail that have a port of new ones."""
        owned, ends = self._bench.fabric.owned, {end for circuit in add for end in circuit.ends}
        mine = (owned.of(owner) for owner in owned.owners if owner.startswith(self.owner(rail, "")))
        return frozenset(c for own in mine for c in own if ends & {*c.ends}) - add

    def _are_there(self, circuits: Matching) -> bool:
        """Tell whether no host was given up: nothing is lit to one that is fenced."""
        hosts = self._bench.hosts
        return not hosts or all(circuit.hosts <= hosts.keys() for circuit in circuits)

    def _is_wanted(self, sender: ActiveController, circuit: Circuit) -> bool:
        """Tell whether it is still of use that a circuit comes up."""
        return not sender.has_ended and self._are_there(frozenset({circuit}))


def _row(stage: Stage) -> list[Any]:
    return [stage.group, stage.number, stage.ranks, stage.place]


def _check_goes_on(sender: ActiveController) -> None:
    """Raise LabError for a change that waited while its job ended: the circuits are others' now."""
    if sender.has_ended:
        raise LabError("the job of this change has ended")


def handlers(job: RunningJob, log: EventLog) -> Handlers:
    """Return what carries out the commands of the controller on a running job."""
    return RailCommands(job.bench, job.inbox, log, job.name).handlers
