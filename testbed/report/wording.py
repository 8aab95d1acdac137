"""Common wording of all reports: labels, and values with their units."""

from __future__ import annotations

import re
from collections.abc import Iterable

from testbed.analysis.checks import CheckResult
from testbed.analysis.metric_definitions import METRICS
from testbed.analysis.metric_definitions import quantity as quantity
from testbed.analysis.metrics import Sample
from testbed.units import SHARE, SIZE

LABELS = {
    "measured-twin": (
        "Real: every process, every byte to an instrument, every packet between ranks, and the "
        "time they took. Emulated: the light. How long the switch settles, how soon lost light "
        "is seen, how long a link takes to come up and how fast it is are the twin's settings. "
        "So these numbers say what the orchestration costs, not what photonics or NCCL would add."
    ),
    "measured-hw": "Measured on the lab's own hardware; no part of it was simulated.",
    "emulated": "Emulated: computed step by step without the processes and packets of a run.",
    "model": "A model's numbers: nothing was run.",
}
"""What was real and what was not, by the label of a result."""

CONFIDENCE = "95 % interval of the median"

_VERDICTS = ("failed", "unknown", "passed")
_EIGHTHS = " ▏▎▍▌▋▊▉"
_SIZE_UNITS = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_BY_SIZE = re.compile(r"(time|algbw|busbw)_(\d+)(b|kib|mib|gib)")


def explain(label: str) -> str:
    """Explain the label of a result; a run that ended early has no label."""
    return LABELS.get(label, "The record does not say what was real.")


def difference(value: float, unit: str) -> str:
    """Format a difference of two values with its sign."""
    return f"{'−' if value < 0 else '+'}{quantity(abs(value), unit)}"


def spread(low: float, high: float, unit: str) -> str:
    """Format an interval, with its unit once when both ends have the same unit."""
    start, _, first = quantity(low, unit).partition(" ")
    end, _, second = quantity(high, unit).partition(" ")
    if first == second:
        return f"{start}–{end} {second}".rstrip()
    return f"{start} {first}–{end} {second}"


def interval(ci95: tuple[float, float] | None, unit: str) -> str:
    """Format the confidence interval of a median; `n < 6` where there are too few trials."""
    return "n < 6" if ci95 is None else spread(*ci95, unit)


def statistics_in_words(sample: Sample, unit: str) -> dict[str, str]:
    """Return the table cells of a sample by name; a missing prediction gives empty cells."""
    predicted = sample.predicted
    return {
        "n": str(len(sample.values)),
        "median": quantity(sample.median, unit),
        "ci95": interval(sample.ci95, unit),
        "predicted": "" if predicted is None else quantity(predicted, unit),
        "beyond": "" if predicted is None else difference(sample.median - predicted, unit),
        "min": quantity(min(sample.values), unit),
        "max": quantity(max(sample.values), unit),
    }


def share(value: float) -> str:
    """Format a share in whole percent, rounded down because it is a lower bound."""
    return SHARE.format(int(value * 100) / 100)


def supports(check: CheckResult) -> str:
    """Return the success rate that a check proves, as text; empty for other checks."""
    if check.supports is None:
        return ""
    return f"supports ≥ {share(check.supports)} at 95 % confidence"


def check_value(check: CheckResult) -> str:
    """Format the value that a check evaluated, in the unit of its metric."""
    if check.value is None:
        return "no value"
    if isinstance(check.value, str):
        return check.value
    return quantity(check.value, check.unit)


def check_rows(checks: Iterable[CheckResult]) -> list[tuple[str, ...]]:
    """Return verdict, name, limit, value and remark of each check, failed checks first."""
    return [
        (
            check.verdict,
            check.name,
            check.limit,
            check_value(check),
            "; ".join(filter(None, (check.reason, supports(check)))),
        )
        for check in sorted(checks, key=lambda check: _VERDICTS.index(check.verdict))
    ]


def retries(count: int) -> str:
    """Return the number of retries as text; empty if there was none."""
    return {0: "", 1: "1 retry"}.get(count, f"{count} retries")


def message_size(metric: str) -> int | None:
    """Return the message size in bytes that a metric belongs to; None for any other metric."""
    match = _BY_SIZE.fullmatch(metric)
    return int(match[2]) * _SIZE_UNITS[match[3]] if match else None


def size(size_bytes: int) -> str:
    """Format a message size for readers."""
    return SIZE.format(size_bytes)


def bar(begin: float, length: float, scale: float, width: int) -> str:
    """Draw a bar that starts at `begin`, for a scale that is `width` columns wide.

    A bar of non-zero length is at least an eighth of a column long, so that it is visible.
    """
    if length <= 0:
        return ""
    start = min(round(begin / scale * width), width - 1)
    full, eighths = divmod(max(1, round(length / scale * width * 8)), 8)
    return " " * start + ("█" * full + _EIGHTHS[eighths]).rstrip()


def in_order(names: set[str]) -> list[str]:
    """Return names in natural order, by the value of numbers in them: `n=2` before `n=16`."""
    return sorted(names, key=lambda name: [_rank(part) for part in re.split(r"(\d+)", name)])


def by_arm(names: Iterable[str]) -> list[str]:
    """Return names `arm.metric` sorted by arm, then in the fixed order of metrics, then by size."""
    split = {name: name.rpartition(".")[::2] for name in names}
    arms = in_order({arm for arm, _ in split.values()})
    told = list(METRICS)

    def place(name: str) -> tuple[int, int, int, str]:
        arm, metric = split[name]
        known = told.index(metric) if metric in METRICS else len(told)
        return arms.index(arm), known, message_size(metric) or 0, metric

    return sorted(split, key=place)


def _rank(part: str) -> tuple[int, str]:
    return (int(part), "") if part.isdecimal() else (-1, part)
