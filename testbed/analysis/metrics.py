"""What each metric is: its unit and which direction is better, which nobody may guess."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from testbed.analysis.statistics import median_interval
from testbed.analysis.trial import TrialResult

Better = Literal["lower", "higher", "neither"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """The unit of a metric, which direction is better, and what it is."""

    unit: str
    better: Better
    what: str


METRICS: dict[str, Meaning] = {
    "recovery_time": Meaning("s", "lower", "t10 - t0: until the last rank's first verified step"),
    "return_to_service": Meaning("s", "lower", "t11 - t0: until throughput is back to 95 %"),
    "fabric_ready": Meaning("s", "lower", "t6 - t0: until light and link are good again"),
    "detection": Meaning("s", "lower", "t2 - t0: until the failure is decided"),
    "fencing": Meaning("s", "lower", "t3 - t2: until the victim is provably out"),
    "commanding": Meaning("s", "lower", "t5 - t4: until the switch reads back as told"),
    "reconfiguration": Meaning("s", "lower", "t6 - t4: from the command to light, link, identity"),
    "leaving": Meaning("s", "lower", "t7 - t3: until the last survivor has left"),
    "waiting": Meaning("s", "lower", "from t6 until switch, survivors and spare are ready too"),
    "joining": Meaning("s", "lower", "from the last of t5, t6, t7 and a ready spare to t8"),
    "resuming": Meaning("s", "lower", "from the last of t5, t6, t7 and a ready spare to t10"),
    "restoring": Meaning("s", "lower", "t9 - t8: until every rank holds the agreed state"),
    "first_step": Meaning("s", "lower", "t10 - t9"),
    "dip": Meaning("s", "lower", "work lost between t0 and t11, as time at the rate before"),
    "plateau": Meaning("1", "higher", "rate after t11 over the rate before t0"),
    "step_time": Meaning("s", "lower", "median time of a step before the fault"),
    "busbw": Meaning("bit/s", "higher", "bus bandwidth of the steps' AllReduce before the fault"),
    "wire_overhead": Meaning(
        "1", "lower", "bytes on the ports over bytes of the AllReduce, less 1"
    ),
    "steps": Meaning("1", "neither", "steps finished when the trial ended"),
    "loss": Meaning("1", "neither", "training loss of the last step"),
    "digest": Meaning("", "neither", "SHA-256 of model, optimiser, step and data position"),
}
"""Every metric by name; those of single message sizes are found by `meaning`."""

_BY_SIZE = {
    "time": Meaning("s", "lower", "time of one AllReduce of this size"),
    "algbw": Meaning("bit/s", "higher", "algorithm bandwidth at this size"),
    "busbw": Meaning("bit/s", "higher", "bus bandwidth at this size"),
}

_SIZED = re.compile(r"(time|algbw|busbw)_[1-9][0-9]*(?:b|kib|mib|gib)")


def meaning(metric: str) -> Meaning:
    """Return what a metric means; raise KeyError for one that does not exist."""
    if metric in METRICS:
        return METRICS[metric]
    sized = _SIZED.fullmatch(metric)
    if sized is None:
        raise KeyError(metric)
    return _BY_SIZE[sized[1]]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of one arm over its trials."""

    meaning: Meaning
    values: tuple[float, ...]
    predicted: float | None

    @property
    def median(self) -> float:
        """Return the median over the trials that have a value."""
        return statistics.median(self.values)

    def to_json(self) -> dict[str, object]:
        """Return the metric as DESIGN's summary has it."""
        interval = median_interval(self.values)
        return {
            "unit": self.meaning.unit,
            "better": self.meaning.better,
            "n": len(self.values),
            "median": self.median,
            "ci95": None if interval is None else list(interval),
            "min": min(self.values),
            "max": max(self.values),
            "predicted": self.predicted,
        }


def metrics(trials: Sequence[TrialResult]) -> dict[str, Metric]:
    """Return every metric of every arm, as `arm.metric`, over the valid trials."""
    found: dict[str, list[float]] = {}
    expected: dict[str, list[float]] = {}
    for trial in trials:
        if trial.valid:
            _collect(found, trial.arm, trial.values)
            _collect(expected, trial.arm, trial.predicted)
    return {
        name: Metric(
            meaning(name.rpartition(".")[2]),
            tuple(values),
            statistics.median(expected[name]) if name in expected else None,
        )
        for name, values in sorted(found.items())
    }


def _collect(into: dict[str, list[float]], arm: str, values: Mapping[str, float | str]) -> None:
    for name, value in values.items():
        if not isinstance(value, str):
            into.setdefault(f"{arm}.{name}", []).append(value)
