"""The commands `list` and `report`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from testbed.cli.app import RESULTS, JsonOption, RecordsOption, app, argument, print_json
from testbed.cli.completion import run_experiments, run_metrics, run_names
from testbed.cli.file_lookup import EXPERIMENTS, LABS, places
from testbed.cli.record import read_again
from testbed.cli.run_list import RunSelection, print_runs, row_of
from testbed.errors import EXIT_FAILED, EXIT_PASSED, UsageError
from testbed.fabric.topologies import TOPOLOGIES, summary
from testbed.files import exists
from testbed.plugins import kinds
from testbed.record.rundir import RunDirectory, find_run
from testbed.schema import Experiment, Lab, load
from testbed.units import counted

if TYPE_CHECKING:
    from testbed.analysis.summary import Summary

Run = Annotated[
    str, argument("RUN", "A run's directory, its name, its end, or `latest`.", run_names)
]
What = Literal[
    "experiments",
    "labs",
    "runs",
    "drivers",
    "faults",
    "jobs",
    "policies",
    "controllers",
    "scheduling-policies",
    "topologies",
]


@app.command(
    name="list",
    epilog="Examples: testbed list drivers --json; "
    "testbed list runs --experiment lumion --metric splice-warm.recovery_time --best 3",
)
def list_(
    what: Annotated[What, typer.Argument(help="What to list.")],
    experiment: Annotated[
        str,
        typer.Option(help="Only runs of this experiment.", autocompletion=run_experiments),
    ] = "",
    metric: Annotated[
        str, typer.Option(help="Besides, this metric of each run.", autocompletion=run_metrics)
    ] = "",
    last: Annotated[
        int | None, typer.Option(min=1, help="Only so many of the newest runs.")
    ] = None,
    best: Annotated[
        int | None, typer.Option(min=1, help="Only so many of them, the best by --metric first.")
    ] = None,
    results: RecordsOption = RESULTS,
    json: JsonOption = False,
) -> None:
    """List experiments, labs, runs, topologies, or what is registered of a kind of plug-in.

    `policies` recover a job from failures, `scheduling-policies` say which job is served first.
    """
    wanted = RunSelection(experiment, metric, last, best)
    if what == "runs":
        rows = wanted.rows(results)
    elif wanted != RunSelection():
        raise UsageError(
            f"--experiment, --metric, --last and --best select runs, not {what}",
            hint="leave them out, or list runs",
        )
    elif what in ("experiments", "labs"):
        rows = list(_files(what))
    elif what == "topologies":
        rows = [{"name": name, "summary": summary(name)} for name in TOPOLOGIES]
    else:
        group = what.replace("-", "_")
        rows = [{"name": n, "summary": kind.summary} for n, kind in kinds(group).items()]
    if json:
        print_json(rows)
    elif what == "runs":
        print_runs(rows, wanted, results)
    else:
        for row in rows:
            print("\t".join(str(value) for value in row.values()))


def _files(what: str) -> list[dict[str, Any]]:
    sort = EXPERIMENTS if what == "experiments" else LABS
    found = places(sort)
    if not found:
        raise UsageError(
            f"no directory {sort!r} in the working directory, above it, or beside the program"
        )
    rows: list[dict[str, Any]] = []
    for path in sorted(found[0].glob("*.yaml")):
        try:
            file = load(path)
        except UsageError as error:  # it hides no other
            print(f"testbed: {error}", file=sys.stderr)
            continue
        if isinstance(file, Experiment) and what == "experiments":
            rows.append({"file": str(path), "name": file.experiment, "question": file.question})
        elif isinstance(file, Lab) and what == "labs":
            what_is_there = ", ".join(
                (counted(len(file.hosts), "host"), counted(len(file.switches), "switch"))
            )
            rows.append({"file": str(path), "name": file.lab, "summary": what_is_there})
    return rows


@app.command(epilog="Example: testbed report latest")
def report(
    run: Run = "latest",
    results: RecordsOption = RESULTS,
    json: JsonOption = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the arms and checks as Markdown instead.")
    ] = False,
    figures: Annotated[
        bool,
        typer.Option("--figures", help="Write figures as SVG, PDF and CSV below the run, too."),
    ] = False,
) -> int:
    """Compute a run's numbers from its event log again, and print its last page."""
    directory = find_run(results, run)
    is_begun = exists(directory.path / "run.json")
    if is_begun and not exists(directory.path / "experiment.yaml"):
        return _report_check(directory, json)
    summary = read_again(directory, show=not json and not markdown)
    if figures:
        _write_figures(summary, directory)
    if json:
        print_json(summary.to_json())
    elif markdown:
        from testbed.report.markdown import markdown as as_markdown

        print(as_markdown(summary), end="")
    return summary.exit_code


def _report_check(run: RunDirectory, json: bool) -> int:
    """Print the result of a check or a change by hand, which have no experiment."""
    row = row_of(run)
    if json:
        print_json(row)
    else:
        for key in ("run", "lab", "label", "started", "outcome", "reason"):
            print(f"{key:<8} {row[key]}")
    return EXIT_PASSED if row["outcome"] in ("passed", "recovered") else EXIT_FAILED


def _write_figures(summary: Summary, directory: RunDirectory) -> None:
    from testbed.report.figure_files import write_figures

    if why := directory.foreign():
        raise UsageError(f"no figure was written to {directory.path}: {why}")
    folder = directory.inside("figures")
    files = write_figures(summary, folder, directory.path)
    names = ", ".join(file.name for file in files)
    print(f"wrote {names or 'no figure'} to {folder}", file=sys.stderr)
