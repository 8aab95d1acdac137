"""The controller `patrol`: read the switches every so many steps of a job.

Its command `Look` and what comes of it are its own; `handlers` says what carries it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from acme_lab.descriptors import PatrolOptions
from testbed.clock import Deadline
from testbed.control.controller import (
    ChangeFailed,
    Command,
    Fail,
    JobObserved,
    Observation,
    OwnCommand,
    OwnObservation,
    Scope,
    View,
)
from testbed.control.protocol import StepDone

_LIMIT = 5.0
"""Seconds that a look at the switches may take."""


@dataclass(frozen=True, slots=True)
class Look(OwnCommand):
    """Read every switch of the run, after a step."""

    after: int


@dataclass(frozen=True, slots=True)
class Looked(OwnObservation):
    """The switches have the circuits of the run."""


@dataclass(frozen=True, slots=True)
class State:
    """The step after which the switches are read next, and whether they are being read."""

    due: int
    is_looking: bool = False


class Patrol:
    """The controller `patrol`; it acts on nothing."""

    scopes: tuple[Scope, ...] = ()

    def __init__(self, options: PatrolOptions, job: str) -> None:
        self._every, self._job = options.every, job

    def begin(self, view: View) -> State:
        """Return a state in which the first look is due after `every` steps."""
        return State(view.jobs[self._job].step + self._every)

    def step(
        self, state: State, now: float, observation: Observation
    ) -> tuple[State, tuple[Command, ...]]:
        """Command a look when a rank has finished the step that is due."""
        match observation:
            case JobObserved(job, StepDone(_, step)) if job == self._job and step >= state.due:
                due = replace(state, due=step + self._every)
                return replace(due, is_looking=True), () if state.is_looking else (Look(step),)
            case Looked():
                return replace(state, is_looking=False), ()
            case ChangeFailed(reason):
                return state, (Fail(f"the switches are not as the run left them: {reason}"),)
        return state, ()

    def wake_at(self, state: State) -> float | None:
        """Return None: only steps count."""
        return None


def handlers(job: Any, log: Any) -> Mapping[type, Callable[[Any, Any], None]]:
    """Return what carries out `Look`, for a running job and the log of its run."""

    def look(command: Look, sender: Any) -> None:
        def act() -> Looked:
            job.bench.fabric.check(Deadline.after(_LIMIT))
            log.append("acme.patrol", sender.name, after=command.after)
            return Looked()

        sender.in_worker(act, ChangeFailed)

    return {Look: look}
