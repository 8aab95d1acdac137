"""`testbed list runs`: one row for each run, with the value of a metric if one is named."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.commands import typed
from testbed.errors import UnsafeError, UsageError
from testbed.plugins import nearest
from testbed.record.journal import has_pending_undo, is_held
from testbed.record.lines import last_objects
from testbed.record.rundir import RunDirectory, runs
from testbed.schema.arm_names import short_names

_LONGEST = 60
"""Characters of one cell."""


@dataclass(frozen=True, slots=True)
class RunSelection:
    """The selection of runs to list, and the metric to show beside each."""

    experiment: str = ""
    metric: str = ""
    last: int | None = None
    best: int | None = None

    def rows(self, results: Path) -> list[dict[str, Any]]:
        """Return a row for each selected run, oldest first; with `best`, the best one first."""
        found = [row_of(run) for run in runs(results)]
        if self.experiment:
            known = sorted({row["experiment"] for row in found})
            found = [row for row in found if row["experiment"] == self.experiment]
            if not found:
                raise UsageError(
                    f"{results.absolute()} has no run of {self.experiment!r}",
                    hint=nearest(self.experiment, known),
                )
        if self.best is not None and not self.metric:
            raise UsageError("--best needs a metric", hint="name one with --metric")
        if self.metric:
            self._measure(found, results)
        newest = found[-self.last :] if self.last is not None else found
        return newest if self.best is None else _best_first(newest)[: self.best]

    def _measure(self, rows: list[dict[str, Any]], results: Path) -> None:
        """Add the selected metric to each row."""
        metrics = {row["run"]: metrics_of(results / row["run"]) for row in rows}
        name = self.metric
        short = {run: _by_short_name(found) for run, found in metrics.items()}
        metrics = {run: found | short[run] | _of_one_arm(found) for run, found in metrics.items()}
        if not any(name in found for found in metrics.values()):
            known = sorted({one for found in short.values() for one in found})
            ends = [one for one in known if one.rpartition(".")[2] == name]
            meant = known if "." in name else sorted({one.rpartition(".")[2] for one in known})
            hint = "known: " + ", ".join(ends) if ends else nearest(name, meant)
            raise UsageError(f"no run that is listed has the metric {name!r}", hint=hint)
        for row in rows:
            found = metrics[row["run"]].get(name, {})
            row |= {"metric": name, "value": found.get("median"), "unit": found.get("unit", "")}
            row |= {"n": found.get("n"), "better": found.get("better", "")}
            row["flag"] = found.get("flag", "")


def _of_one_arm(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a run by their names alone, where it has one arm."""
    parts = [(*name.rpartition("."), found) for name, found in metrics.items()]
    is_one = len({arm for arm, *_ in parts}) == 1
    return {what: found for _, _, what, found in parts} if is_one else {}


def _best_first(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    measured = [row for row in rows if row["value"] is not None]
    return sorted(
        measured, key=lambda row: -row["value"] if row["better"] == "higher" else row["value"]
    )


def row_of(run: RunDirectory) -> dict[str, Any]:
    """Return the row of a run from its files; a damaged file is reported in the row."""
    named = run.id[len("20260101T000000Z-") :].rpartition("-")[0]
    row: dict[str, Any] = {"run": run.id, "experiment": named, "started": "", "lab": ""}
    row |= {"label": "", "overrides": [], "outcome": "unreadable", "reason": ""}
    try:
        facts = run.read_json("run.json")
        row |= {key: str(facts.get(key) or "") for key in ("started", "lab", "label")}
        row["overrides"] = [str(one) for one in facts.get("overrides") or ()]
    except (UsageError, AttributeError, TypeError):  # killed before it was whole, or damaged
        return row | {"reason": "it has no readable run.json"}
    outcome, reason = _beside_the_summary(run)
    try:
        summary = run.read_json("summary.json")
        if outcome in ("failed", "unfinished"):  # nothing of it is left to do: the summary decides
            return row | {key: str(summary[key]) for key in ("outcome", "reason")}
        reason = f"{summary['outcome']}: {summary['reason']}; {reason}"
    except (UsageError, KeyError, TypeError):
        pass
    return row | {"outcome": outcome, "reason": reason}


def _beside_the_summary(run: RunDirectory) -> tuple[str, str]:
    """Return the state of a run by its journal and the end of its log."""
    try:
        if run.journal.exists() and is_held(run.journal):
            return "running", ""
        if has_pending_undo(run.journal):
            return "unrecovered", f"type: {typed('recover', str(run.path))}"
    except (OSError, UnsafeError) as error:
        return "unreadable", f"its journal: {error}"
    try:
        ends = last_objects(run.events)
    except OSError:
        ends = []
    for event in reversed(ends):
        data = event.get("data")
        if not isinstance(data, dict):
            continue
        if event.get("kind") == "recover.end" and data.get("exit_code") == 0:
            return "recovered", "all that it had changed was taken back"
        if event.get("kind") == "run.end" and data.get("error"):
            return "failed", str(data["error"])
    return "unfinished", "it was killed, and left nothing changed"


def _by_short_name(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics by the short names of their arms, which pages print."""
    short = short_names(name.rpartition(".")[0] for name in metrics)
    parts = ((*name.rpartition("."), found) for name, found in metrics.items())
    return {f"{short[arm]}.{what}": found for arm, _, what, found in parts}


def metrics_of(path: Path) -> dict[str, Any]:
    """Return the metrics of a run that have a number; without a summary, none.

    The entry `flag` of a metric says why it needs an explanation, such as a bandwidth above the
    rate of a port; it is empty for the others.
    """
    try:
        summary = RunDirectory(path).read_json("summary.json")
    except UsageError:
        return {}
    found, flags = summary.get("metrics", {}), summary.get("flags", {})
    rows = found.items() if isinstance(found, dict) else ()
    why = flags if isinstance(flags, dict) else {}
    return {
        name: one | {"flag": str(why.get(name, ""))}
        for name, one in rows
        if isinstance(one, dict) and _is_metric(one)
    }


def _is_metric(found: Mapping[str, Any]) -> bool:
    median = found.get("median")
    is_number = isinstance(median, (int, float)) and not isinstance(median, bool)
    return (median is None or is_number) and isinstance(found.get("unit"), str)


def print_runs(rows: Sequence[Mapping[str, Any]], wanted: RunSelection, results: Path) -> None:
    """Print a table of runs; RUN is the unique end of a run's name, which commands accept."""
    if not rows:
        print(f"{results.absolute()} holds no runs", file=sys.stderr)
        return
    headings = ["RUN", "EXPERIMENT", "STARTED", "LAB", "LABEL", "OUTCOME"]
    headings += [wanted.metric] if wanted.metric else []
    print_table([*headings, "OVERRIDES", "REASON"], [_cells(row, wanted) for row in rows])
    for row in rows:
        if why := row.get("flag"):
            print(f"{wanted.metric} of {row['run'].rpartition('-')[2]}: {why}")


def _cells(row: Mapping[str, Any], wanted: RunSelection) -> list[str]:
    started = row["started"][:16].replace("T", " ")
    cells = [row["run"].rpartition("-")[2], row["experiment"], started, row["lab"], row["label"]]
    cells.append(row["outcome"])
    if wanted.metric:
        cells.append(_value(row))
    return [*cells, shlex.join(row["overrides"]), row["reason"]]


def _value(row: Mapping[str, Any]) -> str:
    from testbed.analysis.metric_definitions import quantity

    if row["value"] is None:
        return "-"
    flagged = ", see below" if row["flag"] else ""
    return f"{quantity(row['value'], row['unit'])} (n={row['n']}{flagged})"


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns of equal width; the last column is not padded."""
    shown = [[_short(cell) for cell in row[:-1]] + [row[-1]] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *shown, strict=True)]
    for row in (headings, *shown):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def _short(cell: str) -> str:
    return cell if len(cell) <= _LONGEST else f"{cell[: _LONGEST - 1]}…"
