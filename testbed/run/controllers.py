"""The controllers of one trial: who observes what, and what carries out what they command.

All that is observed is handed to every controller in the order of the inbox, the outcome of a
command only to the controller that gave it. A command is carried out by the handler of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.clock import Deadline
from testbed.control import protocol
from testbed.control.controller import (
    Command,
    CommandJob,
    Controller,
    Fail,
    Observation,
    RecoveryController,
    View,
    seen_by,
)
from testbed.errors import TestbedError
from testbed.events.origin import Origin, attributed
from testbed.record.log import EventLog
from testbed.run.active_controller import ActiveController
from testbed.run.inbox import Inbox, Outcome

Handler = Callable[[Any, ActiveController], None]
"""Carries out a command of one type for the controller that gave it. It does not block."""

Handlers = Mapping[type, Handler]

_END_LIMIT = 10.0
"""Seconds that commands under way at the end of a trial may still take."""


@dataclass(frozen=True, slots=True)
class JobRecoveries:
    """What the controllers of one job have come to at an instant of a trial."""

    is_recoverable: bool
    """A controller recovers the job."""
    happened: bool
    """A recovery was begun since the fault."""
    is_under_way: bool
    failure: str
    """Why a controller cannot go on."""

    @property
    def is_over(self) -> bool:
        """Return whether a recovery has begun and ended, successfully or not."""
        return self.happened and not self.is_under_way


class ControllerExecutor:
    """The controllers of one trial, by name.

    `handlers` carry out what they command, `of_jobs` what they command to each job. What a recovery
    policy decides is kept here, for the trial waits for it: a recovery that `happened`, and the
    `failure` for which a controller cannot go on. Controllers that live with their job are in an
    executor of their own, `beside` that of each trial: they observe all that these do, and first.
    """

    def __init__(
        self,
        controllers: Mapping[str, Controller],
        view: View,
        inbox: Inbox,
        log: EventLog,
        handlers: Handlers,
        of_jobs: Mapping[str, Handlers],
        beside: ControllerExecutor | None = None,
    ) -> None:
        """Let every controller begin; raise ValueError for one that does not fit the view."""
        own: Handlers = {protocol.Decide: self._decide, protocol.GiveUp: self._give_up}
        self._handlers: Handlers = {**handlers, Fail: self._fail}
        self._of_jobs = {job: {**known, **own} for job, known in of_jobs.items()}
        self._inbox, self._log = inbox, log
        self._beside = beside
        self._controllers = [
            ActiveController(name, controller, seen_by(controller, view), inbox)
            for name, controller in controllers.items()
        ]
        self._recovering = [
            (one, one.controller)
            for one in self._controllers
            if isinstance(one.controller, RecoveryController)
        ]
        self.moves_circuits = any(map(_moves_circuits, controllers.values()))
        """A controller moves the circuits of a job that goes on meanwhile."""
        self._happened: set[str] = set()
        """The jobs of which a recovery was begun."""
        self._failures: dict[str, str] = {}
        """Why a controller cannot go on, by the job that it acts on."""
        self._decision: int | None = None
        """The number of the event of the latest decision."""

    @property
    def may_move_circuits(self) -> bool:
        """Return whether a controller moves circuits while jobs go on, here or beside this one."""
        return self.moves_circuits or (self._beside is not None and self._beside.moves_circuits)

    # --- the course of a trial --------------------------------------------------------------

    def begin(self) -> None:
        """Set the first timers."""
        for one in self._controllers:
            one.set_timer()

    def await_fault(self) -> None:
        """Make only recoveries that begin from now on count; earlier ones were false alarms."""
        self._happened.clear()

    @property
    def failure(self) -> str:
        """Return why a controller cannot go on, or an empty string."""
        mine = next(iter(self._failures.values()), "")
        return mine or (self._beside.failure if self._beside else "")

    def failure_of(self, job: str) -> str:
        """Return why a controller of one job cannot go on, or an empty string."""
        mine = self._failures.get(job) or self._failures.get("", "")
        return mine or (self._beside.failure_of(job) if self._beside else "")

    @property
    def is_under_way(self) -> bool:
        """Return whether a recovery is in progress, after a fault or a false alarm."""
        return any(controller.is_recovering(one.state) for one, controller in self._recovering)

    @property
    def happened(self) -> bool:
        """Return whether a recovery was begun."""
        return bool(self._happened)

    def of(self, job: str) -> JobRecoveries:
        """Return what the controllers of one job have come to."""
        mine = [
            (one, controller)
            for one, controller in self._recovering
            if any(scope.job == job for scope in controller.scopes)
        ]
        under_way = any(controller.is_recovering(one.state) for one, controller in mine)
        return JobRecoveries(bool(mine), job in self._happened, under_way, self.failure_of(job))

    @property
    def is_over(self) -> bool:
        """Return whether a recovery has begun and ended, successfully or not."""
        return self.happened and not self.is_under_way

    @property
    def recovers(self) -> bool:
        """Tell whether a controller recovers jobs."""
        return bool(self._recovering)

    def stop(self) -> None:
        """Stop all timers. Safe to call twice."""
        for one in self._controllers:
            one.stop_timer()

    def end(self) -> None:
        """Let the controllers observe nothing more, and wait for commands that are under way.

        Safe to call twice.
        """
        stopped, self._controllers = self._controllers, []
        for one in stopped:
            one.end()
        work = [(one.name, future) for one in stopped for future in list(one.work)]
        self._inbox.wait(lambda: all(one.done() for _, one in work), Deadline.after(_END_LIMIT))
        for name in sorted({name for name, future in work if not future.done()}):
            text = "a command is still under way after the end of its trial or job"
            self._log.append("note", name, text=text)

    # --- observations -----------------------------------------------------------------------

    def handle(self, item: Observation | Outcome) -> None:
        """Take what came through the inbox; what came of another trial's commands is dropped."""
        if not isinstance(item, Outcome):
            self.observe(item)
            return
        if self._beside:
            self._beside.handle(item)
        for one in self._controllers:
            if one is item.recipient:
                with attributed(item.origin):
                    self._carry_out(one, one.take(item))

    def observe(self, observation: Observation) -> None:
        """Hand an observation to every controller, and carry out what they command."""
        if self._beside:
            self._beside.observe(observation)
        for one in self._controllers:
            self._carry_out(one, one.step(observation))

    # --- commands ---------------------------------------------------------------------------

    def _carry_out(self, sender: ActiveController, commands: Collection[Command]) -> None:
        """Carry commands out; what they do names the controller, and a decision before them."""
        decision: int | None = None
        for command in commands:
            what, known, of = self._looked_up(command)
            handler = known.get(type(what))
            if handler is None:
                raise TestbedError(
                    f"controller {sender.name} gave the command {type(what).__name__}{of}, "
                    "which nothing here carries out",
                    hint=f"known: {', '.join(sorted(one.__name__ for one in known))}",
                )
            job = command.job if isinstance(command, CommandJob) else ""
            with attributed(Origin(job, controller=sender.name, cause=decision)):
                handler(what, sender)
            if isinstance(what, protocol.Decide):
                decision = self._decision

    def _looked_up(self, command: Command) -> tuple[object, Handlers, str]:
        """Return what is commanded, the handlers of such commands, and in words of what."""
        if isinstance(command, CommandJob):
            return command.what, self._of_jobs.get(command.job, {}), f" to job {command.job}"
        return command, self._handlers, ""

    def _decide(self, command: protocol.Decide, sender: ActiveController) -> None:
        self._happened |= _jobs_of(sender)
        self._decision = self._log.append(
            "recovery.decided",
            command.victim,
            because=command.because,
            replacement=command.replacement,
        ).seq

    def _give_up(self, command: protocol.GiveUp, sender: ActiveController) -> None:
        self._happened |= _jobs_of(sender)
        self._note_failure(sender, command.reason)
        self._log.append("recovery.failed", reason=command.reason)

    def _fail(self, command: Fail, sender: ActiveController) -> None:
        self._note_failure(sender, f"{sender.name}: {command.reason}")
        self._log.append("note", sender.name, text=f"it cannot go on: {command.reason}")

    def _note_failure(self, sender: ActiveController, reason: str) -> None:
        for job in _jobs_of(sender) or {""}:
            self._failures.setdefault(job, reason)


def _jobs_of(sender: ActiveController) -> set[str]:
    return {scope.job for scope in sender.controller.scopes}


def _moves_circuits(controller: Controller) -> bool:
    is_recovery = isinstance(controller, RecoveryController)
    return not is_recovery and any(scope.of == "circuits" for scope in controller.scopes)
