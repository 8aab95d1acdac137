"""The table of arms: what each of them came to, metric by metric, beside what was predicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.analysis.metric_definitions import MetricDefinition
from testbed.analysis.metrics import METRICS, Metric
from testbed.analysis.statistics import median_interval
from testbed.analysis.summary import Summary
from testbed.report.short_arm_names import shortened
from testbed.report.wording import by_arm, in_order, interval, message_size, quantity
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
    meaning: MetricDefinition
    rows: tuple[ArmRow, ...]


def arm_tables(summary: Summary) -> list[ArmTable]:
    """Return the metrics that a run is about, each with a row for every arm.

    They are those that its checks are about, and the headlines; any that there are without those.
    """
    arms = in_order({trial.arm for trial in summary.trials})
    tables = []
    for name in _about(summary):
        found = {arm: summary.metrics.get(f"{arm}.{name}") for arm in arms}
        known = next(metric.meaning for metric in found.values() if metric)
        rows = (ArmRow(arm, _trials(summary, arm), metric) for arm, metric in found.items())
        tables.append(ArmTable(name, known, tuple(rows)))
    return tables


def cells(row: ArmRow) -> tuple[str, ...]:
    """Return what stands after the name of the arm, as people read it."""
    counts = (str(row.n), str(row.without) if row.without else "")
    metric = row.metric
    if metric is None:
        return (*counts, "–", "", "")
    unit = metric.meaning.unit
    predicted = "" if metric.predicted is None else quantity(metric.predicted, unit)
    ci95 = interval(median_interval(metric.values), unit)
    return (*counts, quantity(metric.median, unit), ci95, predicted)


def print_arms(summary: Summary, console: Console) -> None:
    """Print the table of arms of a summary whose arms have their own names."""
    tables = arm_tables(shortened(summary))
    if not tables:
        return
    shown = len(HEADINGS) if console.width >= _NARROW else len(HEADINGS) - 2
    columns = columns_of(tables)[: shown - len(HEADINGS) or None]
    table = Table(box=None, pad_edge=False)
    for column in columns:
        is_name = column < HEADINGS.index("n")
        table.add_column(HEADINGS[column], justify="left" if is_name else "right", overflow="fold")
    for one in tables:
        for number, row in enumerate(one.rows):
            whole = ("" if number else one.name, row.arm, *cells(row))
            table.add_row(*(_styled(column, whole[column]) for column in columns))
    console.print(Text("\nArms", style="bold"))
    console.print(table)
    for line in notes(summary):
        console.print(Text(line, style="dim"))


def columns_of(tables: Sequence[ArmTable]) -> list[int]:
    """Return which of the headings there is anything to say under."""
    has_missing = any(row.without for table in tables for row in table.rows)
    return [n for n, name in enumerate(HEADINGS) if has_missing or name != "no value"]


def notes(summary: Summary) -> Iterator[str]:
    """Yield what a reader of the table must know: what is missing, what short names stand for."""
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


def _trials(summary: Summary, arm: str) -> int:
    return sum(trial.arm == arm for trial in summary.trials)


def _styled(column: int, cell: str) -> Text:
    return Text(cell, "bold red" if HEADINGS[column] == "no value" else "")
