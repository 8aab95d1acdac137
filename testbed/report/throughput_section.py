"""The section of the page on undisturbed operation: collectives by size, and other metrics."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.analysis.metrics import Metric
from testbed.analysis.summary import Summary
from testbed.report.console import plain_table
from testbed.report.wording import (
    by_arm,
    in_order,
    interval,
    message_size,
    quantity,
    size,
    statistics_in_words,
)

_DISTURBED = ("step_time", "busbw", "wire_overhead", "plateau")
"""What belongs here of an arm whose recoveries have a section of their own."""


def print_throughput(summary: Summary, console: Console) -> None:
    """Print, for each arm, its collectives by message size, if any, and its other metrics."""
    for arm in in_order({trial.arm for trial in summary.trials}):
        mine = _metrics_of(arm, summary)
        by_size = sorted({s for name in mine if (s := message_size(name)) is not None})
        if by_size:
            console.print(Text(f"\n{arm}: collectives by message size", style="bold"))
            console.print(_size_table(by_size, mine))
        rest = [name for name in mine if message_size(name) is None]
        if any(trial.arm == arm and trial.marks is not None for trial in summary.trials):
            rest = [name for name in rest if name in _DISTURBED]
        if rest:
            console.print(Text(f"\n{arm}: what the job did", style="bold"))
            console.print(_metric_table({name: mine[name] for name in rest}))
        for line in _digests(arm, summary):
            console.print(line)


def _metrics_of(arm: str, summary: Summary) -> dict[str, Metric]:
    start = f"{arm}."
    names = by_arm(name for name in summary.metrics if name.startswith(start))
    return {name.removeprefix(start): summary.metrics[name] for name in names}


def _size_table(sizes: Iterable[int], mine: dict[str, Metric]) -> Table:
    headings = ("size", "time", "algbw", "busbw", "95 % interval of busbw")
    table = plain_table(*headings, right=headings)
    named = {(message_size(name), name.partition("_")[0]): metric for name, metric in mine.items()}
    for one in sizes:
        time, algbw, busbw = named[one, "time"], named[one, "algbw"], named.get((one, "busbw"))
        table.add_row(
            size(one),
            quantity(time.median, "s"),
            quantity(algbw.median, "bit/s"),
            quantity(busbw.median, "bit/s") if busbw else "",
            interval(busbw.ci95, "bit/s") if busbw else "",
        )
    return table


def _metric_table(mine: dict[str, Metric]) -> Table:
    numbers = {"n": "n", "median": "median", "ci95": "95 % interval", "min": "min", "max": "max"}
    table = plain_table("metric", *numbers.values(), right=numbers.values())
    for name, metric in mine.items():
        words = statistics_in_words(metric, metric.meaning.unit)
        table.add_row(name, *(words[number] for number in numbers))
    return table


def _digests(arm: str, summary: Summary) -> list[Text]:
    """Return whether all trials of an arm ended in the same state, bit for bit."""
    mine = [t.values["digest"] for t in summary.trials if t.arm == arm and "digest" in t.values]
    if not mine:
        return []
    found = sorted(map(str, set(mine)))
    if len(found) == 1:
        return [Text(f"final state: {found[0][:16]} in {len(mine)} of {len(mine)} trials")]
    return [Text(f"final state differs: {', '.join(d[:16] for d in found)}", style="bold red")]
