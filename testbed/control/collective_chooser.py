"""The controller `collective-choice`: choose the AllReduce of a job that leaves it to the testbed.

It observes when ranks enter the collectives of their steps, and has them follow another schedule
where the cost model expects that to be faster. Choices are numbered from 1 on, and ranks use one
once all have received it, so only steps after the last change count for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median

from testbed.analysis.clocks import Instant
from testbed.collectives.schedule import to_json
from testbed.control import protocol
from testbed.control.collective_choice import WINDOW, Choice, choose
from testbed.control.controller import (
    ChosenCollective,
    Command,
    CommandJob,
    JobObserved,
    Observation,
    OwnCommand,
    Scope,
    View,
)
from testbed.plugins import NoOptions


@dataclass(frozen=True, slots=True)
class RecordChoice(OwnCommand):
    """Record a choice with its number, and what is predicted of it where it changes anything."""

    job: str
    choice: Choice
    collective: ChosenCollective
    """What is in use from now on."""
    predicted: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """A rank's report of a step, and those of other ranks that came before it."""

    step: protocol.StepTimed
    before: Reported | None
    count: int

    def all(self) -> Iterator[protocol.StepTimed]:
        """Yield the reports of all ranks, the last one first."""
        one: Reported | None = self
        while one is not None:
            yield one.step
            one = one.before


Steps = tuple[tuple[protocol.StepTimed, ...], ...]
"""Of each of the latest steps, the reports of all ranks."""


@dataclass(frozen=True, slots=True)
class State:
    """The AllReduce in use, and the steps since it was chosen."""

    collective: ChosenCollective
    recorded: str = ""
    """The choice that was recorded last."""
    open: Mapping[tuple[int, int], Reported] = field(default_factory=dict)
    """By generation and step, the reports of one that some ranks have not reported."""
    window: Steps = ()


class CollectiveChooser:
    """The controller `collective-choice` of one job; see the module."""

    def __init__(self, job: str) -> None:
        self._job = job
        self.scopes = (Scope("collective", job),)

    def begin(self, view: View) -> State:
        """Return the state with no step seen; raise ValueError where there is nothing to choose."""
        collective = view.jobs[self._job].collective
        if collective is None:
            raise ValueError("its options leave nothing to choose; write `collective: auto`")
        return State(collective)

    def wake_at(self, state: State) -> None:
        """Return None: only steps change what suits a job."""

    def step(
        self, state: State, now: float, observation: Observation
    ) -> tuple[State, tuple[Command, ...]]:
        """Return the next state, and another choice after the last rank's report of a step."""
        match observation:
            case JobObserved(job, protocol.StepTimed() as step) if job == self._job:
                if step.choice == state.collective.number:  # or it began before the last change
                    return self._added(state, step)
        return state, ()

    def _added(self, state: State, step: protocol.StepTimed) -> tuple[State, tuple[Command, ...]]:
        key = step.generation, step.step
        before = state.open.get(key)
        reported = Reported(step, before, before.count + 1 if before else 1)
        if reported.count < state.collective.schedule.ranks:
            kept = {at: one for at, one in state.open.items() if at[0] == step.generation}
            return replace(state, open={**kept, key: reported}), ()
        left = {at: one for at, one in state.open.items() if at != key}
        window = (*state.window, tuple(reported.all()))[-WINDOW:]
        state = replace(state, open=left, window=window)
        arrivals = [found for reports in window if (found := _arrivals(reports))]
        links = state.collective.links
        if len(arrivals) < WINDOW or links is None:
            return state, ()
        schedule, size = state.collective.schedule, state.collective.size
        return self._decided(state, choose(arrivals, schedule, size, links))

    def _decided(self, state: State, choice: Choice) -> tuple[State, tuple[Command, ...]]:
        """Record a new choice, and send it to the ranks where the schedule changes."""
        present = state.collective
        what = f"{choice.schedule.name} {choice.straggler and choice.straggler.rank}"
        if what == state.recorded:
            return state, ()
        if choice.schedule is present.schedule:
            return replace(state, recorded=what), (RecordChoice(self._job, choice, present),)
        number = present.number + 1
        collective = replace(present, schedule=choice.schedule, number=number)
        took = _step_time(state.window)
        predicted = choice.predict(took) if took else None
        message = {"do": "choose", "number": number, "schedule": to_json(choice.schedule)}
        return State(collective, what), (
            RecordChoice(self._job, choice, collective, predicted),
            CommandJob(self._job, protocol.Tell(tuple(range(choice.schedule.ranks)), message)),
        )


def _arrivals(reports: tuple[protocol.StepTimed, ...]) -> dict[int, Instant] | None:
    """Return when each rank entered the collective; None where a clock was not measured."""
    known = {one.rank: one.entered for one in reports if one.entered is not None}
    return known if len(known) == len(reports) else None


def _step_time(window: Steps) -> float | None:
    """Return the median time between the ends of two steps; None for fewer than two."""
    ends = [
        max(ends, key=lambda end: end.late)
        for reports in window
        if len(ends := [one.end for one in reports if one.end is not None]) == len(reports)
    ]
    ends.sort(key=lambda end: end.late)
    found = [after.middle - before.middle for before, after in pairwise(ends)]
    return median(found) if found else None


def collective_choice(options: NoOptions, job: str) -> CollectiveChooser:
    """Return the controller `collective-choice` of a job."""
    return CollectiveChooser(job)
