"""In which order a night runs things, and what of it fits into its budget. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from testbed.nightly.pairs import Pair
from testbed.nightly.past import PastRun

_STARTING = 6.0
"""Seconds that a run takes beside what its log tells: a twin built, a report drawn."""

_UNKNOWN = 60.0
"""Seconds that are set aside for each arm once where it never ran."""

_SLACK = 1.2
"""How much longer than last time a run may be expected to take."""


@dataclass(frozen=True, slots=True)
class Task:
    """A pair to be run with so many trials of each arm: when it last was, and how long it took."""

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
        """Return the task once each arm has run in so many seconds: how long it takes follows."""
        if self.basis != "nothing":
            return self
        return replace(self, seconds=_expected((seconds - _STARTING) * self.trials), basis="fewer")


def tasks(pairs: Iterable[Pair], past: Sequence[PastRun]) -> tuple[list[Task], list[Task]]:
    """Return what runs each arm once, and what runs full counts, oldest result first.

    Without a result comes before any, the lab that an experiment names before others. An
    experiment of one trial has a full count only, and a file that was changed no result yet.
    """
    once: list[Task] = []
    full: list[Task] = []
    for pair in pairs:
        mine = [run for run in past if (run.experiment, run.lab) == pair.key]
        count = pair.experiment.trials
        task = _task(pair, count, mine, is_full=True)
        (full if count > 1 else once).append(task)
        if count > 1:
            once.append(_task(pair, 1, mine, is_full=False))
    return sorted(once, key=_age), sorted(full, key=_age)


def _task(pair: Pair, trials: int, past: Sequence[PastRun], *, is_full: bool) -> Task:
    whole = [run for run in past if run.is_whole]
    results = [run.run for run in whole if run.trials >= trials and run.is_of(pair)]
    same = [run.seconds for run in whole if run.trials == trials]
    each = [run.seconds / run.trials for run in whole]
    cut_short = [run.seconds for run in past if not run.is_whole and run.trials == trials]
    basis: Literal["nothing", "fewer", "same"] = "same" if same else "fewer" if each else "nothing"
    seconds = same[-1] if same else max([(each or [_UNKNOWN])[-1] * trials, *cut_short])
    last = results[-1] if results else ""
    return Task(pair, trials, is_full, last, _expected(seconds), basis)


def _expected(seconds: float) -> float:
    return max(0.0, seconds) * _SLACK + _STARTING


def _age(task: Task) -> tuple[str, bool, float, tuple[str, str]]:
    return task.last[:16], not task.pair.is_home, task.seconds, task.pair.key


def first_of_full(full: Sequence[Task], budget: float) -> Task | None:
    """Return the full count that a night begins with setting time aside for.

    It is the oldest that the whole budget has room for, as far as is known: so every night does at
    least one, and none waits for ever behind many short runs.
    """
    known = (task for task in full if task.basis != "nothing")
    return next((task for task in known if task.seconds <= budget), None)
