"""Evaluate the checks of an experiment on the measured values of its trials."""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from testbed.analysis.limit_dimensions import NEAR, dimension_mismatch, in_unit
from testbed.analysis.machine_load import busy_in_words
from testbed.analysis.metric_definitions import (
    DIMENSIONS,
    NAMED_END,
    MetricDefinition,
    meaning,
    quantity,
)
from testbed.analysis.metrics import Metric, missing, missing_in_words
from testbed.analysis.ratio_check import bound, ratio_interval
from testbed.analysis.statistics import share_at_least
from testbed.analysis.trial import TrialResult
from testbed.schema import Check, Condition
from testbed.units import SHARE

Verdict = Literal["passed", "failed", "unknown"]
Values = Sequence[float | None]

_NONE: Mapping[str, MetricDefinition] = {}

VALID_SHARE = 2 / 3
"""The share of an arm's trials that must be valid where the experiment says nothing else."""

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
    """The result of one check. `supports` is the success rate that it proves at 95 % confidence."""

    name: str
    limit: str
    value: float | str | None
    verdict: Verdict
    reason: str = ""
    supports: float | None = None
    unit: str = ""
    """Of the value."""

    def to_json(self) -> dict[str, Any]:
        """Return the check in the format of `summary.json`."""
        keys = ("name", "limit", "value", "verdict", "unit", "reason", "supports")
        row = {key: getattr(self, key) for key in keys}
        return {k: v for k, v in row.items() if k == "value" or v not in ("", None)}


def evaluate(
    check: Check,
    trials: Sequence[TrialResult],
    metrics: Mapping[str, Metric],
    valid_share: float = VALID_SHARE,
    own: Mapping[str, MetricDefinition] = _NONE,
) -> CheckResult:
    """Return the result of a check. A trial that is invalid or did not recover counts against it.

    The result is "unknown" where too few trials of the arm are valid, unless the check would fail
    even if all invalid trials had the best possible value. The reason of a check that did not pass
    names the trials during which other programs kept the machine busy. `own` are metrics that the
    experiment defines.
    """
    if isinstance(check.condition, str):
        return _same(check, check.condition, trials)
    if check.over:
        return _ratio(check, check.condition, trials, own)
    of_arm = [trial for trial in trials if trial.arm == check.arm]
    of = _meaning(check, check.condition, of_arm, own)
    one = _NumericCheck(
        check, check.condition, of, of_arm, metrics.get(f"{check.arm}.{check.metric}")
    )
    found = _held(one, valid_share)
    if found.verdict == "passed":
        return found
    unread = _unread(check.metric, of_arm, own)
    # Whatever else the machine did, it is not why a pattern matched nothing.
    busy = "" if unread and found.value is None else busy_in_words(of_arm)
    return replace(found, reason="; ".join(part for part in (found.reason, unread, busy) if part))


def _unread(metric: str, trials: Sequence[TrialResult], own: Mapping[str, MetricDefinition]) -> str:
    """Return that programs that ended well printed nothing of a metric, and where to look."""
    if metric not in own or all(metric in trial.values for trial in trials if trial.counts):
        return ""
    return (
        f"no line that its programs printed was {own[metric].what}; what they printed is in "
        "logs/*/program.stdout of the run"
    )


def _held(one: _NumericCheck, valid_share: float) -> CheckResult:
    """Return what comes of holding a check against the trials of its arm."""
    check = one.check
    if problem := dimension_mismatch(check.metric, one.meaning, check.statistic, one.condition):
        return one.result("unknown", None, problem)
    used = [trial for trial in one.trials if not _was_ridden_out(trial, check.metric)]
    values = [_value(trial, check.metric) for trial in used]
    must_end = check.metric == NAMED_END
    is_lost = any(must_end or trial.job_failed for trial in used)
    if set(values) <= {None} and not is_lost:
        return one.result("unknown", None, one.missing or "no trial has a value")
    found = one.held(values)
    unknown = [trial.outcome == "not known" and check.metric not in trial.values for trial in used]
    if found.verdict == "failed" and any(unknown) and not must_end:
        at_best = [one.best if u else v for u, v in zip(unknown, values, strict=True)]
        if one.held(at_best).verdict != "failed":
            return one.result("unknown", found.value, one.missing)
    if found.verdict == "unknown" or not (few := too_few_valid(one.trials, valid_share)):
        return found
    valid = [value for value, trial in zip(values, used, strict=True) if trial.valid]
    if valid and one.held([*valid, *[one.best] * (len(used) - len(valid))]).verdict == "failed":
        return found
    return one.result("unknown", found.value, few)


def too_few_valid(trials: Sequence[TrialResult], share: float) -> str:
    """Return a sentence saying that too few trials of an arm are valid, or an empty string."""
    valid = sum(trial.valid for trial in trials)
    if valid >= share * len(trials) - 1e-9:
        return ""
    why = next((trial.reason for trial in trials if not trial.valid and trial.reason), "")
    words = f"{valid} of {len(trials)} trials are valid, and {100 * share:.0f} % must be"
    return f"{words}: {why}" if why else words


def _meaning(
    check: Check,
    condition: Condition,
    trials: Sequence[TrialResult],
    own: Mapping[str, MetricDefinition],
) -> MetricDefinition:
    defined = (
        trial.metric_definitions[check.metric]
        for trial in trials
        if check.metric in trial.metric_definitions
    )
    try:
        return next(defined, None) or own.get(check.metric) or meaning(check.metric)
    except KeyError:  # of a release that knew more; no trial has it
        unit = next((u for u, kind in DIMENSIONS.items() if kind is condition.dimension), "1")
        return MetricDefinition(unit, "neither", "")


def _was_ridden_out(trial: TrialResult, metric: str) -> bool:
    """Return whether a trial has no value because its job rode the fault out."""
    return trial.outcome == "ridden out" and metric not in trial.values and metric != NAMED_END


def _value(trial: TrialResult, metric: str) -> float | None:
    """Return what a trial has to show; nothing when it is invalid or its job did not recover."""
    value = trial.values.get(metric) if trial.counts else None
    return value if isinstance(value, (int, float)) else None


@dataclass(frozen=True, slots=True)
class _NumericCheck:
    """A check on a number, with all that its verdict depends on but the values themselves."""

    check: Check
    condition: Condition
    meaning: MetricDefinition
    trials: Sequence[TrialResult]
    metric: Metric | None

    def held(self, values: Values) -> CheckResult:
        """Evaluate the condition on one value per trial; None stands for a missing value."""
        match self.check.statistic:
            case "every" | "equals":
                return self._every(values)
            case "near_prediction":
                return self._near(values)
        value = _STATISTICS[self.check.statistic](self._filled(values, self.worst))
        holds = _COMPARE[self.condition.comparator](value, in_unit(self.condition))
        said = "" if holds else self._not(f"{self.check.statistic} ", value)
        return self.result(_verdict(holds), value, said, self.missing)

    def result(
        self,
        verdict: Verdict,
        value: float | str | None,
        *reasons: str,
        supports: float | None = None,
    ) -> CheckResult:
        """Return a check result in the unit of the metric."""
        shown = None if isinstance(value, float) and not math.isfinite(value) else value
        reason = "; ".join(reason for reason in reasons if reason)
        unit = self.meaning.unit
        if self.check.statistic == NEAR and self.condition.dimension is SHARE:
            unit = "%"
        return CheckResult(_name(self.check), self._limit, shown, verdict, reason, supports, unit)

    @property
    def worst(self) -> float:
        """Return the worst possible value of the metric, which a missing value counts as."""
        return -math.inf if self._wants_more else math.inf

    @property
    def best(self) -> float | None:
        """Return a value that satisfies the condition, for trials whose value is not known."""
        if self.check.statistic == NEAR:
            return self.metric.predicted if self.metric else None
        return in_unit(self.condition) if self.condition.comparator == "==" else -self.worst

    @property
    def _wants_more(self) -> bool:
        if self.check.statistic == NEAR:
            return self.meaning.better == "higher"
        return self.condition.comparator.startswith(">")

    def _every(self, values: Values) -> CheckResult:
        """Hold the condition against every trial; the value shown is the worst."""
        limit, compare = in_unit(self.condition), _COMPARE[self.condition.comparator]
        known = [value for value in values if value is not None]
        good = sum(compare(value, limit) for value in known)
        bad = [value for value in known if not compare(value, limit)]
        worst = (min if self._wants_more else max)(bad or known, default=None)
        word = "worst " if self.check.statistic == "every" and len(values) > 1 else ""
        said = self._not(word, worst) if bad and worst is not None else ""
        counted = self.missing or f"{good} of {len(values)} trials"
        supports = round(share_at_least(good, len(values)), 4)
        verdict = _verdict(good == len(values))
        return self.result(verdict, worst, said, counted, supports=supports)

    def _near(self, values: Values) -> CheckResult:
        predicted = self.metric.predicted if self.metric else None
        if predicted is None:
            return self.result("unknown", None, "nothing was predicted")
        median = statistics.median(self._filled(values, self.worst))
        beyond = median - predicted
        if self.condition.dimension is SHARE:
            holds = abs(beyond) <= self.condition.value * abs(predicted)
            shown = 100 * beyond / predicted if predicted else math.inf
        else:
            signed = {"lower": beyond, "higher": -beyond, "neither": abs(beyond)}
            holds = signed[self.meaning.better] <= self.condition.value
            shown = beyond
        said = self._not("median ", median, f", predicted {self._shown(predicted)}")
        return self.result(_verdict(holds), shown, "" if holds else said, self.missing)

    @property
    def _limit(self) -> str:
        """Return the limit in words, which say on which side it is where it is on one only."""
        text = self.condition.text
        if self.check.statistic != NEAR:
            return text
        side = {"lower": "at most {} above", "higher": "at most {} below"}.get(self.meaning.better)
        if side is None or self.condition.dimension is SHARE:
            side = "within {} of"
        return f"{side.format(text)} the prediction"

    def _not(self, before: str, value: float, after: str = "") -> str:
        """Return that a value misses the limit; nothing where only trials without one do."""
        if not math.isfinite(value):
            return ""
        return f"{before}{self._shown(value)}{after}, not {self._limit}"

    def _shown(self, value: float) -> str:
        return quantity(value, self.meaning.unit)

    def _filled(self, values: Values, filler: float) -> list[float]:
        return [filler if value is None else value for value in values]

    @property
    def missing(self) -> str:
        return missing_in_words(missing(self.trials, self.check.metric), len(self.trials))


def _ratio(
    check: Check,
    condition: Condition,
    trials: Sequence[TrialResult],
    own: Mapping[str, MetricDefinition],
) -> CheckResult:
    """Return whether an end of the interval of a ratio satisfies a condition."""
    better = _meaning(check, condition, trials, own).better
    interval, words = ratio_interval(check, trials, more_is_better=better == "higher")
    if interval is None:
        return CheckResult(_name(check), condition.text, None, "unknown", words)
    value = bound(check, interval)
    holds = _COMPARE[condition.comparator](value, condition.value)
    return CheckResult(_name(check), condition.text, value, _verdict(holds), words, unit="1")


def _same(check: Check, other: str, trials: Sequence[TrialResult]) -> CheckResult:
    """Return whether all trials of both arms have one and the same value."""
    other_arm, _, other_metric = other.rpartition(".")
    of_arm = [trial for trial in trials if trial.arm == check.arm]
    others = [trial for trial in trials if trial.arm == other_arm]
    name, limit = _name(check), f"the same as {other}"
    values = {trial.values.get(check.metric) if trial.counts else None for trial in of_arm}
    values |= {trial.values.get(other_metric) if trial.counts else None for trial in others}
    if not of_arm or not others or None in values:
        return CheckResult(name, limit, None, "unknown", "some trial has no value")
    shown = ", ".join(sorted(map(str, values)))
    same = len(values) == 1
    said = "" if same else f"{len(values)} values, not {limit}; "
    reason = f"{said}{len(of_arm) + len(others)} trials"
    return CheckResult(name, limit, shown, _verdict(same), reason)


def _name(check: Check) -> str:
    return f"{check.arm}.{check.metric} {check.statistic}"


def _verdict(holds: bool) -> Verdict:
    return "passed" if holds else "failed"
