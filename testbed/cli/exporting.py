"""The command `export`: write what runs recorded for other programs, numbers or a trace."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from testbed.cli.app import RESULTS, RecordsOption, app, argument
from testbed.cli.completion import run_names
from testbed.cli.record import report_damage
from testbed.cli.trace_file import write_trace
from testbed.commands import installing, typed
from testbed.errors import LabError, UsageError
from testbed.files import replace_file
from testbed.record.rundir import RunDirectory, find_run

COLUMNS = {
    "run": str,
    "experiment": str,
    "lab": str,
    "label": str,
    "trial": int,
    "arm": str,
    "outcome": str,
    "valid": bool,
    "sort": str,
    "name": str,
    "value": float,
    "text": str,
    "unit": str,
    "bound": float,
    "flag": str,
}
"""The columns of the table, in their order, with what is in each."""


@app.command(
    epilog="Examples: testbed export latest > latest.csv; "
    "testbed export latest --parquet latest.parquet; "
    "testbed export latest --trace latest.json --trial 0"
)
def export(
    run: Annotated[
        list[str], argument("RUN...", "Directories, names, their ends, or `latest`.", run_names)
    ],
    csv_: Annotated[
        bool, typer.Option("--csv", help="Print CSV; this is what happens by default.")
    ] = False,
    parquet: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a Parquet file instead (needs pyarrow)."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write when ranks and circuits did what, for chrome://tracing or Perfetto.",
        ),
    ] = None,
    trial: Annotated[
        int | None, typer.Option(help="With --trace, the only trial to write.", min=0)
    ] = None,
    results: RecordsOption = RESULTS,
) -> None:
    """Print every value and mark of every trial, one per row, as CSV; or write Parquet or a trace.

    A trace is in the Trace Event Format of Chrome; it needs a job of ranks.
    """
    asked = {"--csv": csv_, "--parquet": parquet, "--trace": trace}
    chosen = [name for name, value in asked.items() if value]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} cannot be used together", hint="choose one")
    if trial is not None and not trace:
        raise UsageError("--trial is of a trace only", hint="add --trace FILE")
    if trace:
        if len(run) > 1:
            raise UsageError("--trace writes one run, not several", hint="name one")
        write_trace(find_run(results, run[0]), trace, trial)
        return
    rows = [row for name in run for row in rows_of(find_run(results, name))]
    if parquet:
        write_parquet(rows, parquet)
        return
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def rows_of(run: RunDirectory) -> list[dict[str, Any]]:
    """Return the rows of one run, from its summary; raise UsageError without one."""
    try:
        summary = run.read_json("summary.json")
    except UsageError as error:
        command = typed("report", str(run.path))
        raise UsageError(str(error.args[0]), hint=f"compute it: {command}") from error
    with report_damage(run):
        try:
            return list(_rows(run, summary))
        except (AttributeError, KeyError, TypeError) as error:
            raise UsageError(
                f"summary.json of {run.path} does not have the format that `testbed` writes: "
                f"{error!r}",
                hint=f"compute it again: {typed('report', str(run.path))}",
            ) from None


def _rows(run: RunDirectory, summary: dict[str, Any]) -> Iterator[dict[str, Any]]:
    common = {key: str(summary.get(key) or "") for key in ("experiment", "lab", "label")}
    metrics = summary.get("metrics") or {}
    units = {name: str(metric["unit"]) for name, metric in metrics.items()}
    trials, flags = summary.get("trials", ()), summary.get("flags") or {}
    measured: dict[str, dict[str, None]] = {}
    for trial in trials:
        measured.setdefault(trial["variant"], {}).update(dict.fromkeys(trial["values"]))
    for trial in trials:
        about = {key: trial[key] for key in ("trial", "outcome", "valid")}
        row = {"run": run.id, **common, **about, "arm": trial["variant"]}
        values = dict.fromkeys(measured[trial["variant"]] or [""]) | trial["values"]
        yield from _rows_of_trial(row, {**trial, "values": values}, units, flags)


def _rows_of_trial(
    row: dict[str, Any],
    trial: dict[str, Any],
    units: Mapping[str, str],
    flags: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    for sort, values in (("value", trial["values"]), ("predicted", trial["predicted"])):
        for name, value in values.items():
            metric = f"{row['arm']}.{name}"
            unit = units.get(metric) or (_unit(name) if name else "")
            about = {"sort": sort, "name": name, "unit": unit}
            flag = flags.get(metric) if sort == "value" else None
            yield {**row, **about, **_cell(value), "flag": flag}
    errors = trial.get("mark_errors") or {}
    for name, value in (trial.get("marks") or {}).items():
        bound = errors.get(name)
        yield {**row, "sort": "mark", "name": name, "unit": "s", "bound": bound, **_cell(value)}


def _cell(value: Any) -> dict[str, Any]:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return {"value": value} if is_number or value is None else {"text": str(value)}


def _unit(name: str) -> str:
    from testbed.analysis.metric_definitions import meaning

    try:
        return meaning(name).unit
    except KeyError:  # of a plug-in that is not installed here
        return ""


def write_parquet(rows: list[dict[str, Any]], path: Path) -> None:
    """Write rows as a Parquet file, atomically; raise UsageError without pyarrow."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError(
            "writing Parquet needs the package pyarrow, which is not installed",
            hint=f"install it with: {installing('parquet')}",
        ) from error
    kinds = {str: pyarrow.string(), int: pyarrow.int64(), bool: pyarrow.bool_()}
    kinds[float] = pyarrow.float64()
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), buffer)
    try:
        replace_file(path, buffer.getvalue())
    except OSError as error:
        raise LabError(f"writing {path} failed: {error.strerror or error}") from error
