"""The section of the page on recoveries: the time of each part, and the first observers."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from testbed.analysis.summary import Summary
from testbed.report.anatomy import Anatomy, first_seen
from testbed.report.claims import claim_of
from testbed.report.console import plain_table
from testbed.report.trial_section import UNREPAIRED
from testbed.report.wording import CONFIDENCE, bar, quantity, statistics_in_words

SPANS = {
    "recovery_time": "recovery t0→t10",
    "fabric_ready": "light t0→t6",
    "return_to_service": "service t0→t11",
    "dip": "work lost",
}
"""What is measured over a whole recovery, and what its row is called."""

_HEADINGS = {
    "median": "median",
    "ci95": "95 % interval",
    "predicted": "predicted",
    "beyond": "beyond",
}
_ALL_NUMBERS, _MEDIANS = 70, 32
"""Columns of a terminal that all numbers fill, and the medians alone; the rest is for bars."""

_LONGEST_BAR = 60


def print_recoveries(summary: Summary, found: Sequence[Anatomy], console: Console) -> None:
    """Print the anatomy of each arm's recoveries, on a common scale."""
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
        for line in filter(None, (f"seen by: {_witnesses(arm)}", arm.t0_uncertainty)):
            console.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
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
    shown = list(_HEADINGS) if is_wide else ["median"]
    bars = min(max(0, width - (_ALL_NUMBERS if is_wide else _MEDIANS)), _LONGEST_BAR)
    table = plain_table("part")
    for name in shown:
        table.add_column(_HEADINGS[name], justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    begin = 0.0
    for duration in arm.parts:
        words = statistics_in_words(duration, "s")
        drawn = bar(begin, duration.median, longest, bars) if bars else ""
        table.add_row(duration.part.name, *(words[name] for name in shown), Text(drawn, "cyan"))
        begin += duration.median
    for metric_name, title in SPANS.items():
        if metric := summary.metrics.get(f"{arm.arm}.{metric_name}"):
            words = statistics_in_words(metric, metric.meaning.unit)
            style = "bold" if metric_name == "recovery_time" else None
            table.add_row(title, *(words[name] for name in shown), style=style)
    return table


def _witnesses(arm: Anatomy) -> str:
    if not arm.valid:
        return "no trial is valid"
    seen = first_seen(arm.valid)
    rows = [
        f"{source} {quantity(statistics.median(after), 's')} after t0"
        f" ({len(after)} of {len(arm.valid)})"
        for source, after in seen.items()
    ]
    if rows:
        return ", ".join(rows)
    receipts = Counter(trial.receipt["observer"] for trial in arm.valid if trial.receipt)
    found = ", ".join(f"{who} ({count} of {len(arm.valid)})" for who, count in receipts.items())
    return found or "no observer"
