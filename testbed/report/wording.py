"""Wording shared by all reports: labels, claims, and values with their units."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper claims of the recovery that an experiment is about, and what it stops at."""

    seconds: float
    text: str


CLAIMS = {
    "lumion": Claim(
        1.0,
        "LUMION (arXiv 2505.23105) claims that a failed accelerator is swapped and the job "
        "restarted within about 1 s; its clock stops at the relaunch. Ours stops later: when "
        "the last rank has finished the first verified step (t10).",
    )
}
"""Claims by the first word of an experiment's name."""

CONFIDENCE = "95 % interval of the median"

_VERDICTS = ("failed", "unknown", "passed")
_EIGHTHS = " ▏▎▍▌▋▊▉"
_SIZE_UNITS = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_BY_SIZE = re.compile(r"(time|algbw|busbw)_(\d+)(b|kib|mib|gib)")


def claim_of(experiment: str) -> Claim | None:
    """Return what a paper claims of the recovery that an experiment repeats."""
    return CLAIMS.get(re.split(r"[-_]", experiment)[0])


def explain(label: str) -> str:
    """Return what a result's label means; a run that broke off early has none."""
    return LABELS.get(label, "The record does not say what was real.")


def difference(value: float, unit: str) -> str:
    """Return a value with its sign, for what lies between two others."""
    return f"{'−' if value < 0 else '+'}{quantity(abs(value), unit)}"


def spread(low: float, high: float, unit: str) -> str:
    """Return an interval, its unit once when both ends have the same."""
    start, _, first = quantity(low, unit).partition(" ")
    end, _, second = quantity(high, unit).partition(" ")
    if first == second:
        return f"{start}–{end} {second}".rstrip()
    return f"{start} {first}–{end} {second}"


def interval(ci95: tuple[float, float] | None, unit: str) -> str:
    """Return the interval of a median, or that there were too few trials for one."""
    return "n < 6" if ci95 is None else spread(*ci95, unit)


def statistics_in_words(sample: Sample, unit: str) -> dict[str, str]:
    """Return what tables say of a sample, by name; nothing where nothing was predicted."""
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
    """Return a share of one in whole percent, never rounded up: it is a lower bound."""
    return SHARE.format(int(value * 100) / 100)


def supports(check: CheckResult) -> str:
    """Return what share of trials a check proves, or nothing when it is not about every trial."""
    if check.supports is None:
        return ""
    return f"supports ≥ {share(check.supports)} at 95 % confidence"


def check_value(check: CheckResult) -> str:
    """Return what a check was held against, in the unit of its metric."""
    if check.value is None:
        return "no value"
    if isinstance(check.value, str):
        return check.value
    return quantity(check.value, check.unit)


def check_rows(checks: Iterable[CheckResult]) -> list[tuple[str, ...]]:
    """Return verdict, name, limit, value and remark of each check, those that failed first."""
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
    """Return how often something was tried once more, or nothing."""
    return {0: "", 1: "1 retry"}.get(count, f"{count} retries")


def message_size(metric: str) -> int | None:
    """Return the bytes of the message that a metric is about; None for any other metric."""
    match = _BY_SIZE.fullmatch(metric)
    return int(match[2]) * _SIZE_UNITS[match[3]] if match else None


def size(size_bytes: int) -> str:
    """Return a message size as people write it."""
    return SIZE.format(size_bytes)


def bar(begin: float, length: float, scale: float, width: int) -> str:
    """Return a bar that starts at `begin` of `scale`, which is `width` columns wide.

    Whatever takes any time is at least an eighth of a column long, so that it is seen.
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
    """Return names as `arm.metric` by arm, then as the metrics are told, then by message size."""
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
