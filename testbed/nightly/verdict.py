"""Judge one run as test cases: checks that failed, errors of the lab, or success."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.errors import EXIT_FAILED, EXIT_INCONCLUSIVE, EXIT_PASSED
from testbed.nightly.process import Ended
from testbed.nightly.task_order import Task
from testbed.report.junit import Case
from testbed.report.wording import quantity

_OF_VALUES = ("equals", "same_as")
"""What holds or does not on any lab, however fast it is."""

_WENT_WRONG = ("failed", "not recovered")
"""Outcomes of a trial whose job was not well at its end."""


@dataclass(frozen=True, slots=True)
class Result:
    """A task that was run, and its test cases; `run` is its run directory, if it has one."""

    task: Task
    run: str
    seconds: float
    cases: tuple[Case, ...]

    @property
    def failures(self) -> list[Case]:
        """Return the cases with failed checks."""
        return [case for case in self.cases if case.fate == "failure"]

    @property
    def errors(self) -> list[Case]:
        """Return the cases with errors of the lab."""
        return [case for case in self.cases if case.fate == "error"]

    @property
    def is_good(self) -> bool:
        """Return whether no case of the task failed."""
        return not self.failures and not self.errors

    @property
    def word(self) -> str:
        """Return the outcome of the task in one word."""
        return "failed" if self.failures else "error" if self.errors else "passed"


def judge(task: Task, ended: Ended) -> Iterator[Case]:
    """Yield the test cases of a run: the run itself, its failed trials, and its checks.

    One trial of each arm is no evidence for a check on a median or a prediction, and neither is a
    lab other than the one that the experiment names; these cases are marked as skipped. Wrong
    values in a collective fail the case on every lab.
    """
    summary = ended.summary
    trouble = _trouble(ended)
    yield Case("run", "run", "error" if trouble else "passed", trouble)
    if summary is None:
        return
    for trial in summary["trials"]:
        if trial["outcome"] in _WENT_WRONG:
            name = f"trial {trial['trial']} of {trial['variant']}"
            yield Case("trials", name, "failure", trial["reason"] or "not recovered")
    for check in summary["checks"]:
        yield _check(task, check)


def _trouble(ended: Ended) -> str:
    """Return what was wrong with lab or run, apart from the claims; nothing when it was well."""
    summary = ended.summary
    if ended.why == "too long":
        return f"it was ended after {ended.seconds:.0f} s, much longer than it took before"
    if summary is None:
        return f"exit code {ended.code}: {ended.said or 'it said nothing'}"
    if ended.code not in (EXIT_PASSED, EXIT_FAILED, EXIT_INCONCLUSIVE):
        left = "; ".join(summary["left"])
        return f"exit code {ended.code}: {summary['reason']}{left and f'; left: {left}'}"
    trials = summary["trials"]
    is_empty = not any(trial["valid"] and trial["values"] for trial in trials)
    if is_empty and not any(trial["outcome"] in _WENT_WRONG for trial in trials):
        return f"nothing was measured: {summary['reason']}"
    return ""


def _check(task: Task, check: Mapping[str, Any]) -> Case:
    name, said = f"{check['name']} {check['limit']}", _said(check)
    if check["verdict"] == "passed":
        return Case("checks", name, "passed", said)
    statistic = check["name"].rpartition(" ")[2]
    if not task.pair.is_home and statistic not in _OF_VALUES:
        return Case("checks", name, "skipped", f"not claimed of this lab: {said}")
    if not task.is_full and not _is_final(statistic, check["limit"]):
        return Case("checks", name, "skipped", f"one trial of each arm is too few: {said}")
    if check["verdict"] == "failed":
        return Case("checks", name, "failure", said)
    return Case("checks", name, "error" if task.is_full else "skipped", f"not known: {said}")


def _is_final(statistic: str, limit: str) -> bool:
    """Return whether a check that one trial misses is missed whatever more trials show."""
    bound = {"min": ">", "max": "<"}.get(statistic)
    return statistic in ("every", *_OF_VALUES) or (bound is not None and limit.startswith(bound))


def _said(check: Mapping[str, Any]) -> str:
    value = check["value"]
    if isinstance(value, (int, float)):
        value = quantity(value, check.get("unit", ""))
    return check.get("reason") or value or "no value"
