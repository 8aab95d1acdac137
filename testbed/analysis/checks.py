"""Checks: what the experiment claims, held against what was measured."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from testbed.analysis.metrics import Metric
from testbed.analysis.statistics import share_at_least
from testbed.analysis.trial import TrialResult
from testbed.schema import Check, Condition
from testbed.units import SHARE

Verdict = Literal["passed", "failed", "unknown"]

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What came of one check. `supports` is the share of trials that the result proves at 95 %."""

    name: str
    limit: str
    value: float | str | None
    verdict: Verdict
    reason: str = ""
    supports: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the check as DESIGN's summary has it."""
        row: dict[str, Any] = {
            "name": self.name,
            "limit": self.limit,
            "value": self.value,
            "verdict": self.verdict,
        }
        extra = {"reason": self.reason, "supports": self.supports}
        return row | {key: value for key, value in extra.items() if value not in ("", None)}


def evaluate(
    check: Check, trials: Sequence[TrialResult], metrics: Mapping[str, Metric]
) -> CheckResult:
    """Return what came of a check. A trial that is invalid or did not recover counts against it."""
    name = f"{check.arm}.{check.metric} {check.statistic}"
    mine = [trial for trial in trials if trial.arm == check.arm]
    if isinstance(check.condition, str):
        return _same(name, check, mine, trials)
    limit = check.condition.text
    metric = metrics.get(f"{check.arm}.{check.metric}")
    if not mine or metric is None:
        return CheckResult(name, limit, None, "unknown", "no trial has a value")
    match check.statistic:
        case "every" | "equals":
            return _every(name, check.condition, check.metric, mine)
        case "near_prediction":
            return _near(name, check.condition, metric)
    values = {"median": metric.median, "min": min(metric.values), "max": max(metric.values)}
    return _compared(name, check.condition, values[check.statistic])


def _compared(name: str, condition: Condition, value: float) -> CheckResult:
    holds = _COMPARE[condition.comparator](value, condition.value)
    return CheckResult(name, condition.text, value, "passed" if holds else "failed")


def _every(
    name: str, condition: Condition, metric: str, trials: Sequence[TrialResult]
) -> CheckResult:
    """Hold a condition against every trial; the value shown is the worst."""
    compare = _COMPARE[condition.comparator]
    values = [trial.values.get(metric) for trial in trials if trial.valid]
    known = [value for value in values if isinstance(value, (int, float))]
    good = sum(compare(value, condition.value) for value in known)
    missing = len(trials) - len(known)
    worst = (min if condition.comparator.startswith(">") else max)(known, default=None)
    reason = f"{missing} of {len(trials)} trials have no value" if missing else ""
    return CheckResult(
        name,
        condition.text,
        worst,
        "passed" if good == len(trials) else "failed",
        reason or f"{good} of {len(trials)} trials",
        round(share_at_least(good, len(trials)), 4),
    )


def _near(name: str, condition: Condition, metric: Metric) -> CheckResult:
    limit = f"within {condition.text} of the prediction"
    if metric.predicted is None:
        return CheckResult(name, limit, None, "unknown", "nothing was predicted")
    distance = metric.median - metric.predicted
    if condition.dimension is SHARE:
        distance /= metric.predicted
        holds = abs(distance) <= condition.value
    else:  # a quantity is a bound on what the measurement adds to the prediction
        holds = distance <= condition.value
    return CheckResult(name, limit, distance, "passed" if holds else "failed")


def _same(
    name: str, check: Check, mine: Sequence[TrialResult], trials: Sequence[TrialResult]
) -> CheckResult:
    other_arm, _, other_metric = str(check.condition).rpartition(".")
    others = [trial for trial in trials if trial.arm == other_arm]
    limit = f"the same as {check.condition}"
    values = {trial.values.get(check.metric) for trial in mine}
    values |= {trial.values.get(other_metric) for trial in others}
    if not mine or not others or None in values:
        return CheckResult(name, limit, None, "unknown", "some trial has no value")
    shown = sorted(map(str, values))
    verdict: Verdict = "passed" if len(values) == 1 else "failed"
    return CheckResult(name, limit, ", ".join(shown), verdict, f"{len(mine) + len(others)} trials")
