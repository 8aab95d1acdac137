"""The page's section on recoveries: where every millisecond went, and who saw the failure when."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from testbed.analysis.metrics import Metric
from testbed.analysis.statistics import median_interval
from testbed.analysis.summary import Summary
from testbed.report.anatomy import Anatomy, first_seen
from testbed.report.trial_section import UNREPAIRED
from testbed.report.wording import CONFIDENCE, bar, claim_of, difference, interval, quantity

SPANS = (
    ("recovery_time", "recovery t0→t10"),
    ("fabric_ready", "light t0→t6"),
    ("return_to_service", "service t0→t11"),
    ("dip", "work lost"),
)
"""What is measured over a whole recovery, and what its row is called."""

_HEADINGS = ("median", "95 % interval", "predicted", "beyond")
_ALL_NUMBERS, _MEDIANS = 70, 32
"""Columns of a terminal that all numbers fill, and the medians alone; the rest is for bars."""

_LONGEST_BAR = 60


def print_recoveries(summary: Summary, found: Sequence[Anatomy], console: Console) -> None:
    """Print the anatomy of each arm's recoveries, all drawn to one scale."""
    console.print(Text("\nRecovery", style="bold"))
    if claim := claim_of(summary.experiment):
        console.print(Text(claim.text))
    longest = max((sum(d.median for d in arm.parts) for arm in found), default=0.0)
    for arm in found:
        console.print()
        console.print(_headline(arm))
        if arm.parts or f"{arm.arm}.dip" in summary.metrics:
            table = _table(arm, summary, longest, console.width)
            console.print(Padding(table, (0, 0, 0, 2), expand=False))
        console.print(Padding(Text(f"seen by: {_witnesses(arm)}"), (0, 0, 0, 2), expand=False))
    console.print(
        Text(
            f"\nMedians of the trials that recovered, with the {CONFIDENCE}; parts add up to t10 "
            "in each trial, their medians need not. 'beyond' is measured − predicted.",
            style="dim",
        )
    )


def _headline(arm: Anatomy) -> Text:
    valid, recovered = len(arm.valid), len(arm.recovered)
    words = [f"{valid} of {len(arm.trials)} trials valid", f"{recovered} recovered"]
    of_others = Counter(trial.outcome for trial in arm.valid)
    words += [f"{of_others[word]} {word}" for word in UNREPAIRED if of_others[word]]
    counts = ": " + ", ".join(words)
    is_well = recovered + of_others["ridden out"] == len(arm.trials)
    style = "" if is_well else "bold red"
    return Text.assemble(
        (arm.arm, "bold"), (counts, style), f", steps done again: {arm.lost_steps}"
    )


def _table(arm: Anatomy, summary: Summary, longest: float, width: int) -> Table:
    """Return the parts and spans of an arm; a narrow terminal is shown the medians alone."""
    is_wide = width >= _ALL_NUMBERS
    shown = len(_HEADINGS) if is_wide else 1
    bars = min(max(0, width - (_ALL_NUMBERS if is_wide else _MEDIANS)), _LONGEST_BAR)
    table = Table(box=None, pad_edge=False)
    table.add_column("part", overflow="fold")
    for column in _HEADINGS[:shown]:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    begin = 0.0
    for duration in arm.parts:
        cells = _cells(duration.median, duration.ci95, duration.predicted, "s")[:shown]
        drawn = bar(begin, duration.median, longest, bars) if bars else ""
        table.add_row(duration.part.name, *cells, Text(drawn, "cyan"))
        begin += duration.median
    for name, title in SPANS:
        if metric := summary.metrics.get(f"{arm.arm}.{name}"):
            style = "bold" if name == "recovery_time" else None
            table.add_row(title, *_metric_cells(metric)[:shown], style=style)
    return table


def _metric_cells(metric: Metric) -> tuple[str, ...]:
    ci95 = median_interval(metric.values)
    return _cells(metric.median, ci95, metric.predicted, metric.meaning.unit)


def _cells(
    median: float, ci95: tuple[float, float] | None, predicted: float | None, unit: str
) -> tuple[str, ...]:
    shown = (quantity(median, unit), interval(ci95, unit))
    if predicted is None:
        return (*shown, "", "")
    return (*shown, quantity(predicted, unit), difference(median - predicted, unit))


def _witnesses(arm: Anatomy) -> str:
    seen = first_seen(arm.valid)
    rows = [
        f"{source} {quantity(statistics.median(after), 's')} after t0"
        f" ({len(after)} of {len(arm.valid)})"
        for source, after in seen.items()
    ]
    return ", ".join(rows) or "nobody"
