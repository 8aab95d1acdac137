"""The metrics of a run: one value for each trial that counts, and how many trials have none."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from testbed.analysis.metric_definitions import MetricDefinition, meaning
from testbed.analysis.statistics import median_interval
from testbed.analysis.trial import NO_RECOVERY, TrialResult


@dataclass(frozen=True, slots=True)
class Sample:
    """The values of one quantity in several trials, and its predicted value."""

    values: tuple[float, ...]
    predicted: float | None

    @property
    def median(self) -> float:
        """Return the median over the trials that have a value."""
        return statistics.median(self.values)

    @property
    def ci95(self) -> tuple[float, float] | None:
        """Return the 95 % confidence interval of the median; None for fewer than six values."""
        return median_interval(self.values)


@dataclass(frozen=True, slots=True)
class Metric(Sample):
    """One metric of one arm: its values over the trials of the arm."""

    meaning: MetricDefinition
    missing: Mapping[str, int] = field(default_factory=dict)
    """How many trials of the arm have no value, by what they came to."""

    @property
    def trials(self) -> int:
        """Return the number of trials of the arm, whether or not they have a value."""
        return len(self.values) + sum(self.missing.values())

    def to_json(self) -> dict[str, object]:
        """Return the metric in the format of `summary.json`."""
        return {
            "unit": self.meaning.unit,
            "better": self.meaning.better,
            "n": len(self.values),
            "trials": self.trials,
            "missing": dict(self.missing),
            "median": self.median,
            "ci95": list(self.ci95) if self.ci95 else None,
            "min": min(self.values),
            "max": max(self.values),
            "predicted": self.predicted,
        }


def metrics(trials: Sequence[TrialResult]) -> dict[str, Metric]:
    """Return every metric of every arm, as `arm.metric`, over the trials that count.

    A trial that is invalid, or whose job had failed at its end, has no value; the number of such
    trials is given beside each median.
    """
    found: dict[str, list[float]] = {}
    expected: dict[str, list[float]] = {}
    defined: dict[str, MetricDefinition] = {}
    for trial in trials:
        if trial.counts:
            _collect(found, trial.arm, trial.values)
            _collect(expected, trial.arm, trial.predicted)
            defined |= trial.metric_definitions
    return {
        name: Metric(
            tuple(values),
            statistics.median(expected[name]) if name in expected else None,
            defined.get(metric) or meaning(metric),
            missing((trial for trial in trials if trial.arm == arm), metric),
        )
        for name, values in sorted(found.items())
        for arm, _, metric in [name.rpartition(".")]
    }


def missing(trials: Iterable[TrialResult], metric: str) -> dict[str, int]:
    """Return how many trials lack a value of a metric, by the outcome of the trial."""
    found = Counter(
        trial.outcome if trial.outcome in NO_RECOVERY else "no value"
        for trial in trials
        if not (trial.counts and metric in trial.values)
    )
    return dict(sorted(found.items()))


def missing_in_words(found: Mapping[str, int], trials: int) -> str:
    """Return a sentence on the trials without a value and the reasons; empty if all have one."""
    if not (count := sum(found.values())):
        return ""
    why = ", ".join(f"{n} {outcome}" for outcome, n in found.items() if outcome != "no value")
    return f"{count} of {trials} trials have no value" + (f" ({why})" if why else "")


def _collect(into: dict[str, list[float]], arm: str, values: Mapping[str, float | str]) -> None:
    for name, value in values.items():
        if not isinstance(value, str):
            into.setdefault(f"{arm}.{name}", []).append(value)
