"""The step rate of the job around each trial, as data of figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from testbed.analysis.trial import TrialResult


@dataclass(frozen=True, slots=True)
class StepRates:
    """The instants in seconds of the log when steps of a trial ended, and those of its fault."""

    trial: TrialResult

    @property
    def ends(self) -> Sequence[float]:
        """Return when the steps ended, in order."""
        return list(self.trial.step_ends)

    @property
    def rates(self) -> list[float]:
        """Return the steps per second between each two consecutive step ends."""
        counts = list(self.trial.step_ends.values())[1:]
        return [n / (b - a) for n, (a, b) in zip(counts, pairwise(self.ends), strict=True)]

    def mark(self, name: str) -> float | None:
        """Return a mark of the trial in seconds of the log."""
        marks = self.trial.marks
        return marks.at[name].middle if marks and name in marks.at else None


def step_rates(trials: Sequence[TrialResult]) -> list[StepRates]:
    """Return the step rates of every trial in which a step was finished, or something broken.

    Timed collectives count as steps in trials with a fault; without a fault they have a figure of
    their own.
    """
    return [StepRates(trial) for trial in trials if trial.step_ends or trial.marks]
