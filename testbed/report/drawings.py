"""Choose the figures of a run, with the numbers in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from testbed.analysis.marks import NAMES
from testbed.analysis.metrics import Metric, Sample
from testbed.analysis.rail_prediction import SweepArm
from testbed.analysis.summary import Summary
from testbed.rails.requests import Mode
from testbed.report import figures
from testbed.report.anatomy import Anatomy, anatomies
from testbed.report.canvas import Form
from testbed.report.claims import claim_of
from testbed.report.step_rates import StepRates, step_rates
from testbed.report.wording import in_order, message_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = tuple[str | int | float | None, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure to be drawn, and the table of its data; seconds, bit/s, bytes."""

    name: str
    draw: Callable[[Form], Figure]
    headings: tuple[str, ...]
    rows: tuple[Row, ...]


def drawings(summary: Summary) -> Iterator[Drawing]:
    """Yield the figures of a run."""
    arms = anatomies(summary)
    names = [arm.arm for arm in arms]
    if recovered := [arm for arm in arms if arm.parts]:
        yield from _recoveries(summary, recovered)
    found = step_rates(summary.trials)
    if any(len(pace.ends) > 1 for pace in found):
        yield from _rates(found, names)
    if faulty := [trial for trial in summary.trials if trial.marks and trial.marks.at]:
        reached = [trial.marks.relative() if trial.marks else {} for trial in faulty]
        rows = (
            (trial.number, trial.arm, *(marks.get(name) for name in NAMES))
            for trial, marks in zip(faulty, reached, strict=True)
        )
        headings = ("trial", "arm", *NAMES)
        yield Drawing("marks", lambda form: figures.marks(faulty, names, form), headings, (*rows,))
    for number, sweep in enumerate(summary.sweeps):
        yield from _delays(summary, sweep, f"delays-{number}" if number else "delays")
    if sizes := _bandwidths(summary):
        flags = _bandwidth_flags(summary)
        yield Drawing(
            "busbw",
            lambda form: figures.bandwidth(sizes, flags.keys(), form),
            ("arm", "bytes", *_SPREAD, "flag"),
            tuple(
                (arm, size, *_spread(m), flags.get((arm, size), ""))
                for arm, of in sizes.items()
                for size, m in sorted(of.items())
            ),
        )


_SPREAD = ("n", "median", "ci95_low", "ci95_high", "min", "max", "predicted")


def _spread(metric: Sample) -> Row:
    low, high = metric.ci95 or (None, None)
    ends = min(metric.values), max(metric.values)
    return (len(metric.values), metric.median, low, high, *ends, metric.predicted)


def _delays(summary: Summary, sweep: Sequence[SweepArm], name: str) -> Iterator[Drawing]:
    """Yield how long an iteration on rails takes, in each mode over the delay of its circuits."""
    times = {one: summary.metrics.get(f"{one.arm}.iteration_time") for one in sweep}
    found = [(one, metric) for one, metric in times.items() if metric is not None]
    if not found:
        return
    modes = {mode: [(o.delay, m) for o, m in found if o.mode == mode] for mode in get_args(Mode)}
    series = {mode: points for mode, points in modes.items() if points}
    yield Drawing(
        name,
        lambda form: figures.iteration_times(series, form),
        ("arm", "mode", "delay", *_SPREAD),
        tuple((one.arm, one.mode, one.delay, *_spread(metric)) for one, metric in found),
    )


def _recoveries(summary: Summary, arms: Sequence[Anatomy]) -> Iterator[Drawing]:
    totals = {arm.arm: summary.metrics[f"{arm.arm}.recovery_time"] for arm in arms}
    claim = claim_of(summary.experiment)
    limit = claim.seconds if claim else None
    rows: list[Row] = []
    for arm in arms:
        for part in arm.parts:
            rows.append((arm.arm, part.part.name, *_spread(part)[:4], part.predicted))
    for name, total in totals.items():
        rows.append((name, "whole", *_spread(total)[:4], total.predicted))
    headings = ("arm", "part", "n", "median", "ci95_low", "ci95_high", "predicted")
    yield Drawing(
        "anatomy", lambda form: figures.anatomy(arms, totals, form), headings, tuple(rows)
    )
    times = [
        (arm.arm, trial.number, trial.values["recovery_time"], totals[arm.arm].predicted)
        for arm in arms
        for trial in arm.recovered
        if isinstance(trial.values.get("recovery_time"), float)
    ]
    yield Drawing(
        "times",
        lambda form: figures.recovery_times(arms, totals, limit, form),
        ("arm", "trial", "recovery_time", "predicted"),
        tuple(times),
    )


def _rates(found: Sequence[StepRates], arms: Sequence[str]) -> Iterator[Drawing]:
    headings = ("trial", "arm", "from", "to", "steps_per_second")
    yield Drawing(
        "steps",
        lambda form: figures.step_rate(found, form),
        headings,
        tuple(row for pace in found for row in _steps(pace, 0.0)),
    )
    struck = [(pace, zero) for pace in found if (zero := pace.mark("t0")) is not None]
    if struck:
        rows = tuple(row for pace, zero in struck for row in _steps(pace, zero))
        yield Drawing("dips", lambda form: figures.dips(found, arms, form), headings, rows)


def _steps(pace: StepRates, zero: float) -> Iterator[Row]:
    for begin, end, rate in zip(pace.ends, pace.ends[1:], pace.rates, strict=False):
        yield pace.trial.number, pace.trial.arm, begin - zero, end - zero, rate


def _bandwidths(summary: Summary) -> dict[str, dict[int, Metric]]:
    """Return the bus bandwidth of every arm by message size."""
    found: dict[str, dict[int, Metric]] = {}
    for name, metric in summary.metrics.items():
        if of := _arm_and_size(name):
            found.setdefault(of[0], {})[of[1]] = metric
    return {arm: found[arm] for arm in in_order(set(found))}


def _bandwidth_flags(summary: Summary) -> dict[tuple[str, int], str]:
    """Return why bus bandwidths are flagged, by arm and message size."""
    return {of: why for name, why in summary.flags.items() if (of := _arm_and_size(name))}


def _arm_and_size(name: str) -> tuple[str, int] | None:
    """Return the arm and message size of a bus bandwidth; None for other metrics."""
    arm, _, what = name.rpartition(".")
    size = message_size(what)
    return None if size is None or not what.startswith("busbw") else (arm, size)
