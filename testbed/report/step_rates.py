"""The step rate of the job around each trial, as data of figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from testbed.analysis.clocks import Clocks
from testbed.analysis.grouping import grouped
from testbed.analysis.steps import KINDS, finished_steps, rank_count
from testbed.analysis.trial import TrialResult
from testbed.events import Event


@dataclass(frozen=True, slots=True)
class StepRates:
    """The instants in seconds of the log when steps of a trial ended, and those of its fault."""

    trial: TrialResult
    ends: tuple[float, ...]

    @property
    def rates(self) -> list[float]:
        """Return the steps per second between each two consecutive step ends."""
        return [1 / (b - a) for a, b in pairwise(self.ends)]

    def mark(self, name: str) -> float | None:
        """Return a mark of the trial in seconds of the log."""
        marks = self.trial.marks
        return marks.at[name].middle if marks and name in marks.at else None


def step_rates(trials: Sequence[TrialResult], events: Sequence[Event]) -> list[StepRates]:
    """Return the step rates of every trial in which a step was finished.

    Timed collectives count as steps in trials with a fault; without a fault they have a figure of
    their own.
    """
    faulty = {trial.number for trial in trials if trial.marks is not None}
    clocks = Clocks(events)
    reports = (
        event
        for event in events
        if event.kind == "step" or (event.kind in KINDS and event.trial in faulty)
    )
    by_trial = grouped(reports, lambda event: event.trial)
    found = []
    for trial in trials:
        if mine := by_trial.get(trial.number):
            ends = {step.end.middle for step in finished_steps(mine, clocks, rank_count(mine))}
            found.append(StepRates(trial, tuple(sorted(ends))))
    return found
