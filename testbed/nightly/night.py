"""One night: tasks in their order until the budget is spent, each judged as it ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.clock import Deadline, utc
from testbed.errors import EXIT_USAGE
from testbed.nightly.baseline import Baselines, Slower
from testbed.nightly.order import Task, first_of_full, tasks
from testbed.nightly.pairs import Excluded, Pair
from testbed.nightly.past import past_runs
from testbed.nightly.process import Ended, conduct
from testbed.nightly.secrets import stand_ins
from testbed.nightly.verdict import Result, judge
from testbed.record.rundir import RunDirectory
from testbed.report.junit import Case
from testbed.report.wording import spread

_HANGS = 3.0
"""How many times as long as it is expected to take a run may take before it is ended."""

_LEAST = 120.0
"""Seconds that every run may take, however short it was before."""

Teller = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Missed:
    """A task that was not reached, and why."""

    task: Task
    reason: str


@dataclass(slots=True)
class Night:
    """What a night has done so far."""

    begun: str
    budget: float
    excluded: list[Excluded]
    results: list[Result] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)
    new_baselines: int = 0
    chance: float = 0.0
    """How many metrics would be slower by chance, had nothing changed, at most."""
    spent: float = 0.0


class Watch:
    """Carries a night out; `signals` grows while it does, and then it ends early."""

    def __init__(
        self,
        directory: Path,
        results: Path,
        baselines: Baselines,
        signals: Sequence[int],
        tell: Teller,
    ) -> None:
        self._directory = directory
        self._results = results
        self._baselines = baselines
        self._signals = signals
        self._tell = tell

    def keep(self, pairs: Sequence[Pair], excluded: list[Excluded], budget: float) -> Night:
        """Run what fits into the budget, in seconds: each arm once, then full counts.

        The time of the oldest full count is set aside before, and what it does is not done twice.
        """
        night = Night(utc(), budget, excluded)
        end = Deadline.after(budget)
        once, full = tasks(pairs, past_runs(self._results))
        first = first_of_full(full, budget)
        seconds: dict[tuple[str, str], float] = {}
        for task in once:
            if first is None or task.pair.key != first.pair.key:
                kept_back = first.seconds if first else 0.0
                self._try(night, task, end, kept_back, seconds)
        for task in full:
            took = seconds.get(task.pair.key)
            self._try(night, task.after_once(took) if took else task, end, 0.0, seconds)
        self._again(night, end, seconds)
        night.spent = budget - end.left
        return night

    def _again(self, night: Night, end: Deadline, seconds: dict[tuple[str, str], float]) -> None:
        """Try once more what the time that was kept back had no room for."""
        again, night.missed = night.missed, []
        for missed in again:
            self._try(night, missed.task, end, 0.0, seconds)

    def _try(
        self,
        night: Night,
        task: Task,
        end: Deadline,
        kept_back: float,
        seconds: dict[tuple[str, str], float],
    ) -> None:
        if self._signals:
            night.missed.append(Missed(task, "the night was ended by a signal"))
            return
        left = max(0.0, end.left - kept_back)
        if task.seconds > left:
            why = f"takes about {task.seconds:.0f} s, {left:.0f} s were left"
            night.missed.append(Missed(task, why))
            return
        log = (
            self._directory / "logs" / f"{len(night.results):03d}-{'-on-'.join(task.pair.key)}.log"
        )
        hangs = max(_LEAST, _HANGS * task.seconds) if task.basis == "same" else float("inf")
        ended = conduct(self._arguments(task), _environment(task), log, min(hangs, end.left),
                        self._signals)  # fmt: skip
        if ended.why and (ended.why == "signal" or not end.left):
            why = "ended by a signal" if ended.why == "signal" else "the budget ended before it did"
            night.missed.append(Missed(task, why))
            return
        if ended.code == EXIT_USAGE and ended.summary is None and not task.pair.is_home:
            night.excluded.append(Excluded(*task.pair.key, ended.said))
            return
        seconds[task.pair.key] = ended.seconds
        result = self._result(night, task, ended)
        night.results.append(result)
        self._tell(one_line(result))
        for case in (*result.failures, *result.errors):
            self._tell(f"    {case.name}: {case.reason}")

    def _arguments(self, task: Task) -> list[str]:
        pair = task.pair
        where = ["--lab", str(pair.lab_file), "--results", str(self._results)]
        count = [] if task.is_full else ["--repeat", str(task.trials)]
        return ["run", str(pair.experiment_file), *where, "--twin", "--json", *count]

    def _result(self, night: Night, task: Task, ended: Ended) -> Result:
        cases = list(judge(task, ended))
        summary = ended.summary
        if summary and task.is_full:
            of, metrics = " on ".join(task.pair.key), summary["metrics"]
            compared = self._baselines.compared(of, metrics)
            slower = list(self._baselines.slower(of, metrics))
            night.chance += sum(compared.values())
            cases += _speed(compared, slower)
            if all(case.fate in ("passed", "skipped") for case in cases):
                commit = self._commit(summary["run"])
                new = self._baselines.add(of, metrics, summary["run"], commit)
                night.new_baselines += new
        run = str(summary["run"]) if summary else ""
        return Result(task, run, ended.seconds, tuple(cases))

    def _commit(self, run: str) -> str:
        facts: Mapping[str, Any] = RunDirectory(self._results / run).read_json("run.json")
        return str(facts.get("git", {}).get("commit", ""))


def _speed(compared: Mapping[str, float], slower: Sequence[Slower]) -> Iterator[Case]:
    """Yield a case for each arm with baselines: as fast as before, or what has become slower."""
    for arm in dict.fromkeys(name.rpartition(".")[0] for name in compared):
        mine = [one for one in slower if one.arm == arm]
        count = sum(name.rpartition(".")[0] == arm for name in compared)
        words = [
            f"{one.metric} is slower: {spread(*one.interval, one.unit)}, "
            f"before {spread(*one.baseline, one.unit)}"
            for one in mine
        ]
        said = "; ".join(words) or f"{count} metrics"
        yield Case("baseline", f"{arm} is as fast as before", "failure" if mine else "passed", said)


def _environment(task: Task) -> Mapping[str, str]:
    """Return what a run finds in its environment: a twin takes any word for a secret."""
    return stand_ins(task.pair.lab) | os.environ


def one_line(result: Result) -> str:
    """Return how a result reads in one line."""
    experiment, lab = result.task.pair.key
    count = result.task.trials
    how = "1 trial" if count == 1 else f"{count} trials"
    return f"{result.word:<7} {experiment} on {lab}, {how} of each arm, {result.seconds:.0f} s"
