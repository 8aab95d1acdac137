"""One nightly run: tasks are run in order until the time budget is spent, and judged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.clock import Deadline, utc
from testbed.errors import EXIT_USAGE
from testbed.nightly.baseline import Baselines, with_load
from testbed.nightly.pairs import Excluded, Pair
from testbed.nightly.past_runs import past_runs
from testbed.nightly.placeholder_secrets import stand_ins
from testbed.nightly.process import Ended, conduct
from testbed.nightly.speed import SpeedComparison
from testbed.nightly.task_order import Task, first_of_full, tasks
from testbed.nightly.verdict import Result, judge
from testbed.record.rundir import RunDirectory
from testbed.report.junit import Case
from testbed.units import counted

_HANGS = 3.0
"""How many times as long as it is expected to take a run may take before it is ended."""

_LEAST = 120.0
"""Seconds that every run may take, however short it was before."""

ProgressCallback = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SkippedTask:
    """A task that was not run, and the reason."""

    task: Task
    reason: str
    was_begun: bool = False


@dataclass(slots=True)
class Night:
    """The results of a nightly run so far."""

    begun: str
    budget: float
    excluded: list[Excluded]
    results: list[Result] = field(default_factory=list)
    missed: list[SkippedTask] = field(default_factory=list)
    new_baselines: int = 0
    chance: float = 0.0
    """How many metrics would seem slower by chance, had nothing changed, at most."""
    spent: float = 0.0
    signal: int = 0
    """The signal that ended it early, if one did."""


@dataclass(eq=False)
class NightRunner:
    """Runs the tasks of one nightly run; a signal in `signals` ends it early."""

    _directory: Path
    _results: Path
    _baselines: Baselines
    _signals: Sequence[int]
    _on_progress: ProgressCallback
    _runs: int = 0
    _once: dict[tuple[str, str], float] = field(default_factory=dict)
    """Seconds that each arm once has taken tonight, by pair."""

    def run(self, pairs: Sequence[Pair], excluded: list[Excluded], budget: float) -> Night:
        """Run the tasks that fit into `budget` seconds: one trial per arm, then full counts.

        The time of the oldest full count is reserved at the beginning, and that pair gets no run
        with one trial per arm.
        """
        self._night = night = Night(utc(), budget, excluded)
        self._end = end = Deadline.after(budget)
        once, full = tasks(pairs, past_runs(self._results, self._on_progress))
        first = first_of_full(full, budget)
        for task in once:
            if first is None or task.pair.key != first.pair.key:
                self._try(task, kept_back=first.seconds if first else 0.0)
        for task in full:
            took = self._once.get(task.pair.key)
            self._try(task.after_once(took) if took else task)
        for missed in list(night.missed):  # more may have been kept back than was needed
            if not missed.was_begun and missed.task.seconds <= end.left:
                night.missed.remove(missed)
                self._try(missed.task)
        night.spent = budget - end.left
        night.signal = next(iter(self._signals), 0)
        return night

    def _try(self, task: Task, kept_back: float = 0.0) -> None:
        left = max(0.0, self._end.left - kept_back)
        if self._signals:
            self._miss(task, "the night was ended by a signal")
        elif task.seconds > left:
            self._miss(task, f"takes about {task.seconds:.0f} s, {left:.0f} s were left")
        elif ended := self._conduct(task):
            if not task.is_full:
                self._once[task.pair.key] = ended.seconds
            self._judge(task, ended)

    def _judge(self, task: Task, ended: Ended) -> None:
        """Keep what came of a run; one that seems slower than before is run again to be sure."""
        speed = self._speed(task, ended)
        if speed.slower and self._end.left > ended.seconds:
            self._on_progress(f"{task.pair.name} seems slower than before; it is run again")
            if again := self._conduct(task):
                self._keep(task, ended, speed, speed.cases(is_sure=False))
                ended, speed = again, self._speed(task, again).also_in(speed)
        self._keep(task, ended, speed, speed.cases(is_sure=True))

    def _speed(self, task: Task, ended: Ended) -> SpeedComparison:
        """Hold the times of full counts against the baselines."""
        metrics = with_load(ended.summary) if ended.summary and task.is_full else {}
        compared = self._baselines.compared(task.pair.name, metrics)
        return SpeedComparison(compared, tuple(self._baselines.slower(task.pair.name, metrics)))

    def _keep(
        self, task: Task, ended: Ended, speed: SpeedComparison, cases: Iterable[Case]
    ) -> None:
        summary = ended.summary
        run = str(summary["run"]) if summary else ""
        result = Result(task, run, ended.seconds, (*judge(task, ended), *cases))
        self._night.results.append(result)
        self._night.chance += sum(speed.compared.values())
        if summary and task.is_full and result.is_good and not speed.slower:
            facts = RunDirectory(self._results / run).read_json("run.json")
            commit = str(facts.get("git", {}).get("commit", ""))
            metrics = with_load(summary)
            self._night.new_baselines += self._baselines.take(task.pair.name, metrics, run, commit)
        self._on_progress(f"{result.word:<7} {what(task)}, {result.seconds:.0f} s")
        for case in (*result.failures, *result.errors):
            self._on_progress(f"    {case.name}: {case.reason}")

    def _conduct(self, task: Task) -> Ended | None:
        """Run a task to its end; return nothing where it did not come to one, which is kept."""
        self._runs += 1
        self._on_progress(f"begins  {what(task)}, about {task.seconds:.0f} s")
        log = self._directory / "logs" / f"{self._runs:03d}-{'-on-'.join(task.pair.key)}.log"
        hangs = max(_LEAST, _HANGS * task.seconds) if task.basis == "same" else float("inf")
        limit = min(hangs, self._end.left)
        environment: Mapping[str, str] = stand_ins(task.pair.lab) | os.environ
        ended = conduct(self._arguments(task), environment, log, limit, self._signals)
        if ended.why == "signal":
            self._miss(task, "it was ended by a signal", was_begun=True)
        elif ended.why and not self._end.left:
            self._miss(task, "the budget ended before it did", was_begun=True)
        elif ended.code == EXIT_USAGE and ended.summary is None and not task.pair.is_home:
            self._night.excluded.append(Excluded(*task.pair.key, ended.said))
        else:
            return ended
        return None

    def _miss(self, task: Task, why: str, *, was_begun: bool = False) -> None:
        self._night.missed.append(SkippedTask(task, why, was_begun))

    def _arguments(self, task: Task) -> list[str]:
        pair = task.pair
        where = ["--lab", str(pair.lab_file), "--results", str(self._results)]
        count = [] if task.is_full else ["--repeat", str(task.trials)]
        return ["run", str(pair.experiment_file), *where, "--twin", "--json", *count]


def what(task: Task) -> str:
    """Describe a task in a few words."""
    return f"{task.pair.name}, {counted(task.trials, 'trial')} of each arm"
