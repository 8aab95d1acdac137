"""Checks: what the experiment claims, held against what was measured."""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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

_STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "median": statistics.median,
    "min": min,
    "max": max,
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
    unit: str = ""
    """Of the metric, where the experiment itself defines it."""

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
    result = _evaluated(check, trials, metrics)
    defined = {name: said for trial in trials for name, said in trial.meanings.items()}
    return replace(result, unit=defined[check.metric].unit) if check.metric in defined else result


def _evaluated(
    check: Check, trials: Sequence[TrialResult], metrics: Mapping[str, Metric]
) -> CheckResult:
    name = f"{check.arm}.{check.metric} {check.statistic}"
    mine = [trial for trial in trials if trial.arm == check.arm]
    if isinstance(check.condition, str):
        return _same(name, check, mine, trials)
    found = [_value(trial, check.metric) for trial in mine]
    values = [value if isinstance(value, (int, float)) else None for value in found]
    lost = any(trial.is_lost for trial in mine)
    if set(values) <= {None} and not lost:
        return CheckResult(name, check.condition.text, None, "unknown", "no trial has a value")
    match check.statistic:
        case "every" | "equals":
            return _every(name, check.condition, values)
        case "near_prediction":
            metric = metrics.get(f"{check.arm}.{check.metric}")
            return _near(name, check.condition, values, metric.predicted if metric else None)
    return _compared(name, check.condition, values, _STATISTICS[check.statistic])


def _value(trial: TrialResult, metric: str) -> float | str | None:
    """Return what a trial has to show; nothing when it is invalid or its job did not recover."""
    counts = trial.valid and not trial.is_lost
    return trial.values.get(metric) if counts else None


def _with_worst(condition: Condition, values: Sequence[float | None]) -> list[float]:
    """Return the values with the worst there can be in the place of each that is missing."""
    worst = -math.inf if condition.comparator.startswith(">") else math.inf
    return [worst if value is None else value for value in values]


def _missing(values: Sequence[float | None]) -> str:
    count = values.count(None)
    return f"{count} of {len(values)} trials have no value" if count else ""


def _compared(
    name: str,
    condition: Condition,
    values: Sequence[float | None],
    statistic: Callable[[list[float]], float],
) -> CheckResult:
    value = statistic(_with_worst(condition, values))
    holds = _COMPARE[condition.comparator](value, condition.value)
    shown = value if math.isfinite(value) else None
    return CheckResult(name, condition.text, shown, _verdict(holds), _missing(values))


def _every(name: str, condition: Condition, values: Sequence[float | None]) -> CheckResult:
    """Hold a condition against every trial; the value shown is the worst."""
    compare = _COMPARE[condition.comparator]
    known = [value for value in values if value is not None]
    good = sum(compare(value, condition.value) for value in known)
    worst = (min if condition.comparator.startswith(">") else max)(known, default=None)
    return CheckResult(
        name,
        condition.text,
        worst,
        _verdict(good == len(values)),
        _missing(values) or f"{good} of {len(values)} trials",
        round(share_at_least(good, len(values)), 4),
    )


def _near(
    name: str, condition: Condition, values: Sequence[float | None], predicted: float | None
) -> CheckResult:
    limit = f"within {condition.text} of the prediction"
    if predicted is None:
        return CheckResult(name, limit, None, "unknown", "nothing was predicted")
    distance = statistics.median(_with_worst(condition, values)) - predicted
    if condition.dimension is SHARE:
        holds = abs(distance) <= condition.value * abs(predicted)
        distance = distance / predicted if predicted else math.inf
    else:  # a quantity is a bound on what the measurement adds to the prediction
        holds = distance <= condition.value
    shown = distance if math.isfinite(distance) else None
    return CheckResult(name, limit, shown, _verdict(holds), _missing(values))


def _same(
    name: str, check: Check, mine: Sequence[TrialResult], trials: Sequence[TrialResult]
) -> CheckResult:
    other_arm, _, other_metric = str(check.condition).rpartition(".")
    others = [trial for trial in trials if trial.arm == other_arm]
    limit = f"the same as {check.condition}"
    values = {_value(trial, check.metric) for trial in mine}
    values |= {_value(trial, other_metric) for trial in others}
    if not mine or not others or None in values:
        return CheckResult(name, limit, None, "unknown", "some trial has no value")
    shown = sorted(map(str, values))
    verdict = _verdict(len(values) == 1)
    return CheckResult(name, limit, ", ".join(shown), verdict, f"{len(mine) + len(others)} trials")


def _verdict(holds: bool) -> Verdict:
    return "passed" if holds else "failed"
