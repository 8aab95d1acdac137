"""The step rate of the job around each trial, for figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from testbed.analysis.clocks import Clocks
from testbed.analysis.steps import KINDS, finished_steps
from testbed.analysis.trial import TrialResult
from testbed.events import Event


@dataclass(frozen=True, slots=True)
class StepRates:
    """When the steps of one trial ended, in the log's seconds, and what disturbed it."""

    trial: TrialResult
    ends: tuple[float, ...]

    @property
    def rates(self) -> list[float]:
        """Return the steps per second between each two ends."""
        return [1 / (b - a) for a, b in pairwise(self.ends)]

    def mark(self, name: str) -> float | None:
        """Return a mark of the trial in the log's seconds."""
        marks = self.trial.marks
        return marks.at[name].middle if marks and name in marks.at else None


def step_rates(trials: Sequence[TrialResult], events: Sequence[Event]) -> list[StepRates]:
    """Return the step rates of every trial in which a step was finished.

    Timed collectives count as steps where something was broken; else they have a figure of their
    own.
    """
    faulty = {trial.number for trial in trials if trial.marks is not None}
    clocks = Clocks(events)
    by_trial: dict[int, list[Event]] = {}
    for event in events:
        is_step = event.kind == "step" or (event.kind in KINDS and event.trial in faulty)
        if is_step and event.trial is not None:
            by_trial.setdefault(event.trial, []).append(event)
    found = []
    for trial in trials:
        mine = by_trial.get(trial.number, [])
        ranks = 1 + max((event.data["rank"] for event in mine), default=-1)
        ends = (step.end.middle for step in finished_steps(mine, clocks, ranks))
        if mine:
            found.append(StepRates(trial, tuple(sorted(set(ends)))))
    return found
