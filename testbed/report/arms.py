"""The table of arms: each metric of each arm beside its prediction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from testbed.analysis.metric_definitions import METRICS
from testbed.analysis.metrics import Metric
from testbed.analysis.summary import Summary
from testbed.report.console import plain_table
from testbed.report.short_arm_names import shortened
from testbed.report.wording import by_arm, in_order, message_size, statistics_in_words
from testbed.schema.arm_names import short_keys

HEADINGS = ("metric", "arm", "n", "no value", "median", "95 % interval", "predicted")
NOTE = (
    "n: trials with a value. no value: trials of the arm that have none, as one that is invalid "
    "or did not recover. Medians are of those that have one."
)

_HEADLINES = ("recovery_time", "return_to_service", "step_time", "busbw", "exposed_time")
"""What is shown of a run whose checks are about nothing, or about something else as well."""

_NARROW = 76
"""Columns of a terminal below which the table has neither intervals nor predictions."""


@dataclass(frozen=True, slots=True)
class ArmRow:
    """One metric of one arm; `metric` is None where no trial has a value."""

    arm: str
    trials: int
    metric: Metric | None

    @property
    def n(self) -> int:
        """Return the number of trials that have a value."""
        return len(self.metric.values) if self.metric else 0

    @property
    def without(self) -> int:
        """Return the number of trials that have none."""
        return self.trials - self.n


@dataclass(frozen=True, slots=True)
class ArmTable:
    """One metric of every arm, in the order of the arms."""

    name: str
    rows: tuple[ArmRow, ...]


def arm_tables(summary: Summary) -> list[ArmTable]:
    """Return the metrics to show for a run, each with a row for every arm.

    They are the metrics of its checks and the main metrics; all metrics if it has none of these.
    """
    counts = Counter(trial.arm for trial in summary.trials)
    arms = in_order(set(counts))
    tables = []
    for name in _about(summary):
        rows = (ArmRow(arm, counts[arm], summary.metrics.get(f"{arm}.{name}")) for arm in arms)
        tables.append(ArmTable(name, tuple(rows)))
    return tables


def cells(row: ArmRow) -> tuple[str, ...]:
    """Return the cells of a row after the name of the arm."""
    counts = (str(row.n), str(row.without) if row.without else "")
    if row.metric is None:
        return (*counts, "–", "", "")
    words = statistics_in_words(row.metric, row.metric.meaning.unit)
    return (*counts, words["median"], words["ci95"], words["predicted"])


def rows_in_words(tables: Sequence[ArmTable], columns: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """Yield the given columns of every row; only the first row of a metric has its name."""
    for table in tables:
        for number, row in enumerate(table.rows):
            whole = ("" if number else table.name, row.arm, *cells(row))
            yield tuple(whole[column] for column in columns)


def print_arms(summary: Summary, console: Console) -> None:
    """Print the table of arms of a summary whose arms have their own names."""
    tables = arm_tables(shortened(summary))
    if not tables:
        return
    shown = len(HEADINGS) if console.width >= _NARROW else len(HEADINGS) - 2
    columns = columns_of(tables)[: shown - len(HEADINGS) or None]
    headings = [HEADINGS[column] for column in columns]
    table = plain_table(*headings, right=HEADINGS[2:])
    for row in rows_in_words(tables, columns):
        styles = ("bold red" if name == "no value" else "" for name in headings)
        table.add_row(*map(Text, row, styles))
    console.print(Text("\nArms", style="bold"))
    console.print(table)
    for line in notes(summary):
        console.print(Text(line, style="dim"))


def columns_of(tables: Sequence[ArmTable]) -> list[int]:
    """Return the columns to show; `no value` only where a trial lacks a value."""
    has_missing = any(row.without for table in tables for row in table.rows)
    return [n for n, name in enumerate(HEADINGS) if has_missing or name != "no value"]


def notes(summary: Summary) -> Iterator[str]:
    """Yield notes below the table: missing values, and the full names of short ones."""
    if any(row.without for table in arm_tables(summary) for row in table.rows):
        yield NOTE
    keys = short_keys(trial.arm for trial in summary.trials)
    if words := [f"{short} is {key}" for key, short in keys.items() if short != key]:
        yield ", ".join(words)


def _about(summary: Summary) -> list[str]:
    """Return the names of the metrics that a run is about, in the order in which they are told."""
    found = {name.rpartition(".")[2] for name in summary.metrics}
    checked = {check.name.rpartition(" ")[0].rpartition(".")[2] for check in summary.checks}
    sized = {name: size for name in found if (size := message_size(name)) is not None}
    own = {name for name in found - sized.keys() if name not in METRICS}
    chosen = found & checked | found.intersection(_HEADLINES) | own
    rates = {name: size for name, size in sized.items() if name.startswith("busbw")}
    if rates and "busbw" not in found:
        chosen.add(max(rates, key=lambda name: rates[name]))
    return [name.rpartition(".")[2] for name in by_arm(f"a.{name}" for name in chosen or found)]
