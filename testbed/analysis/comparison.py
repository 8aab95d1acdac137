"""Compare one metric of two runs; trials without a value are counted."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.analysis.statistics import ratio_of_medians_interval
from testbed.analysis.trial import NO_RECOVERY, NO_RESULT

ENOUGH = 6
"""Trials on each side from which a verdict is given; fewer cannot show their own uncertainty."""

SEED = 0
"""Of the bootstrap, so that one comparison always says one thing."""

_WORST = {"lower": math.inf, "higher": 0.0}
"""What a trial that was lost counts as, by which direction is better."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of the medians of a metric in two runs, second over first, with a verdict.

    Medians are of the trials that have a value. In the interval and the verdict a valid trial whose
    job did not recover or failed counts as the worst possible value.
    """

    medians: tuple[float, float]
    ratio: float | None
    ci95: tuple[float, float] | None
    verdict: str
    n: tuple[int, int]
    """Trials with a value."""
    missing: tuple[Mapping[str, int], Mapping[str, int]]
    """Trials without one, by what they came to."""


def compare_metric(name: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Ratio:
    """Compare a metric of two runs, both given as the contents of their `summary.json`.

    The second run is better or worse when the 95 % bootstrap interval of the ratio of medians
    leaves out 1.
    """
    first, second = values(a, name), values(b, name)
    missing = (_missing(a, name), _missing(b, name))
    medians = statistics.median(first), statistics.median(second)
    counts = (len(first), len(second))

    def found(ratio: float | None, ci95: tuple[float, float] | None, verdict: str) -> Ratio:
        return Ratio(medians, ratio, ci95, verdict, counts, missing)

    units = a["metrics"][name]["unit"], b["metrics"][name]["unit"]
    if units[0] != units[1]:
        return found(None, None, f"not comparable: {units[0]} against {units[1]}")
    if min(*first, *second) <= 0:
        return found(None, None, "no ratio")
    ratio = medians[1] / medians[0]
    if min(counts) < ENOUGH:
        return found(ratio, None, f"too few, n < {ENOUGH}")
    better = a["metrics"][name]["better"]
    filled = [
        [*of, *[_WORST[better]] * _lost(gone)] if better in _WORST else of
        for of, gone in zip((first, second), missing, strict=True)
    ]
    ci95 = ratio_of_medians_interval(filled[1], filled[0], SEED)
    verdict = _verdict(ci95, better, a["label"] == b["label"])
    return found(ratio, ci95 if math.isfinite(ci95[1]) else None, verdict)


def values(summary: Mapping[str, Any], name: str) -> list[float]:
    """Return the values of a metric in all trials that count."""
    arm, _, metric = name.rpartition(".")
    trials = [t for t in summary["trials"] if t["variant"] == arm and outcome(t) not in NO_RESULT]
    return [trial["values"][metric] for trial in trials if metric in trial["values"]]


def outcome(trial: Mapping[str, Any]) -> str:
    """Return the outcome of a trial in a `summary.json`, even one of an older version."""
    if "outcome" in trial:
        return str(trial["outcome"])
    if not trial["valid"]:
        return "invalid"
    lost = trial["recovered"] is False or bool(trial["reason"])
    response = {True: "recovered", False: "not recovered"}.get(trial["recovered"])
    response = trial.get("response", response)
    if response is None:
        return "failed" if lost else "done"
    return "not recovered" if lost else str(response)


def _missing(summary: Mapping[str, Any], name: str) -> dict[str, int]:
    """Return how many trials of an arm have no value of a metric, by what they came to."""
    arm, _, metric = name.rpartition(".")
    words = [
        found if found in NO_RECOVERY else "no value"
        for trial in summary["trials"]
        if trial["variant"] == arm
        for found in [outcome(trial)]
        if found in NO_RESULT or metric not in trial["values"]
    ]
    return dict(sorted(Counter(words).items()))


def _lost(missing: Mapping[str, int]) -> int:
    return sum(missing.get(word, 0) for word in ("failed", "not recovered"))


def _verdict(ci95: Sequence[float], better: str, same_label: bool) -> str:
    if better == "neither":
        return ""
    if not same_label:
        return "not comparable"
    low, high = ci95
    if low <= 1 <= high:
        return "unclear"
    return "better" if (high < 1) == (better == "lower") else "worse"
