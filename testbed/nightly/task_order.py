"""Order the tasks of a nightly run, and choose those that fit into its budget; pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from testbed.nightly.pairs import Pair
from testbed.nightly.past_runs import PastRun

_STARTING = 6.0
"""Seconds that a run takes beside what its log tells: a twin built, a report drawn."""

_UNKNOWN = 60.0
"""Seconds that are set aside for each arm once where it never ran."""

_SLACK = 1.2
"""How much longer than last time a run may be expected to take."""

_LONGER = 2.0
"""How much longer than it got is expected of a run that was cut short."""


@dataclass(frozen=True, slots=True)
class Task:
    """A pair to run with a number of trials per arm: its last date, and its duration."""

    pair: Pair
    trials: int
    is_full: bool
    last: str
    """The name of its last run, which begins with the time; empty when it has none."""
    seconds: float
    """How long it is expected to take."""
    basis: Literal["nothing", "fewer", "same"]
    """What that rests on: no run of the pair, one of another count, or one of the same."""

    def after_once(self, seconds: float) -> Task:
        """Return the task with its duration estimated from `seconds` for one trial per arm."""
        if self.basis != "nothing":
            return self
        return replace(self, seconds=_expected((seconds - _STARTING) * self.trials), basis="fewer")


def tasks(pairs: Iterable[Pair], past: Sequence[PastRun]) -> tuple[list[Task], list[Task]]:
    """Return the tasks with one trial per arm and the full ones, oldest result first.

    Pairs without a result come first, and the lab that an experiment names before other labs. An
    experiment of one trial has a full task only; results of changed files do not count.
    """
    once: list[Task] = []
    full: list[Task] = []
    for pair in pairs:
        count = pair.experiment.trials
        (full if count > 1 else once).append(_task(pair, count, past, is_full=True))
        if count > 1:
            once.append(_task(pair, 1, past, is_full=False))
    return sorted(once, key=_age), sorted(full, key=_age)


def _task(pair: Pair, trials: int, past: Sequence[PastRun], *, is_full: bool) -> Task:
    mine = [run for run in past if (run.experiment, run.lab) == pair.key]
    whole = [run for run in mine if run.is_whole]
    results = [run.run for run in whole if run.trials >= trials and run.is_of(pair)]
    last = results[-1] if results else ""
    timed = [run for run in mine if run.is_timed]
    same = [run.seconds for run in timed if run.trials == trials]
    if same:
        return Task(pair, trials, is_full, last, _expected(same[-1]), "same")
    cut_short = [_LONGER * run.seconds for run in mine if not run.is_whole and run.trials <= trials]
    each = [run.seconds / run.trials for run in timed] or _elsewhere(pair, past) or [_UNKNOWN]
    seconds = _expected(max([each[-1] * trials, *cut_short]))
    return Task(pair, trials, is_full, last, seconds, "fewer" if timed else "nothing")


def _elsewhere(pair: Pair, past: Sequence[PastRun]) -> list[float]:
    """Return how long a trial of each arm has taken on other labs."""
    of = pair.experiment.experiment
    return [run.seconds / run.trials for run in past if run.experiment == of and run.is_timed]


def _expected(seconds: float) -> float:
    return max(0.0, seconds) * _SLACK + _STARTING


def _age(task: Task) -> tuple[str, bool, float, tuple[str, str]]:
    return task.last[:16], not task.pair.is_home, task.seconds, task.pair.key


def first_of_full(full: Sequence[Task], budget: float) -> Task | None:
    """Return the full task for which a nightly run reserves time at its beginning.

    It is the oldest whose known duration fits into the whole budget: so every nightly run does at
    least one full task, and none is postponed for ever by many short ones.
    """
    known = (task for task in full if task.basis != "nothing")
    return next((task for task in known if task.seconds <= budget), None)
