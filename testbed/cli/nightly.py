"""The command `nightly`: run every experiment on the twin of every lab that it fits."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.cli.app import (
    RESULTS,
    JsonOption,
    ResultsOption,
    app,
    print_json,
    seconds_of,
    terminal,
)
from testbed.cli.exit_on_signal import record_signals
from testbed.cli.file_lookup import EXPERIMENTS, LABS, places
from testbed.errors import (
    EXIT_FAILED,
    EXIT_LAB,
    EXIT_PASSED,
    EXIT_SIGNALLED,
    LabError,
)
from testbed.record.rundir import RunDirectory

if TYPE_CHECKING:
    from testbed.nightly.night import Night

_CODES = {"passed": EXIT_PASSED, "failed": EXIT_FAILED, "error": EXIT_LAB}

Directory = Annotated[Path, typer.Option(metavar="DIR", help="Where experiment files are.")]
Labs = Annotated[Path, typer.Option(metavar="DIR", help="Where lab files are.")]
Budget = Annotated[str, typer.Option(metavar="TIME", help="How long it may take, as '30 min'.")]


@app.command(epilog="Example: testbed nightly --budget '30 min'")
def nightly(
    budget: Budget = "30 min",
    experiments: Directory = Path(EXPERIMENTS),
    labs: Labs = Path(LABS),
    results: ResultsOption = RESULTS,
    json: JsonOption = False,
) -> int:
    """Run every experiment on the twin of every lab that it fits; exit 1 if a check fails."""
    from testbed.nightly.baseline import Baselines, this_machine
    from testbed.nightly.night import NightRunner
    from testbed.nightly.pairs import find_pairs
    from testbed.nightly.report import outcome, to_json

    limit = seconds_of("--budget", budget)
    pairs, excluded = find_pairs(_nearest(experiments, EXPERIMENTS), _nearest(labs, LABS))
    directory, machine = _directory(results / "nightly"), this_machine()
    baselines = Baselines(results / "nightly" / "baselines", machine)
    signals: list[int] = []
    with record_signals(signals.append):
        runner = NightRunner(directory.path, results, baselines, signals, _tell)
        night = runner.run(pairs, excluded, limit)
        facts = to_json(night, machine, baselines)
        for place in (directory, RunDirectory(results / "nightly")):
            _write(place, night, facts)
    if json:
        print_json(facts)
    else:
        _show(night, directory)
    return EXIT_SIGNALLED + signals[0] if signals else _CODES[outcome(night)[0]]


def _nearest(given: Path, usual: str) -> Path:
    """Return a directory of files: the one given, or the nearest of the usual ones."""
    return next(iter(places(usual)), given) if given == Path(usual) else given


def _tell(line: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S}  {line}", file=sys.stderr, flush=True)


def _directory(parent: Path) -> RunDirectory:
    """Make the directory of this night."""
    path = parent / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
    try:
        (path / "logs").mkdir(parents=True)
    except OSError as error:
        raise LabError(
            f"making {path} failed: {error.strerror}", hint="name another directory with --results"
        ) from error
    return RunDirectory(path)


def _write(directory: RunDirectory, night: Night, facts: dict[str, object]) -> None:
    """Write the files of a night: once where they stay, once where the latest are found."""
    from testbed.nightly.baseline import this_machine
    from testbed.nightly.report import junit, markdown

    directory.write_json("nightly.json", facts)
    directory.write_text("nightly.md", markdown(night, this_machine()))
    directory.write_text("junit.xml", junit(night))


def _show(night: Night, directory: RunDirectory) -> None:
    from rich.table import Table
    from rich.text import Text

    from testbed.nightly.report import HEADINGS, outcome, rows

    console, table = terminal(), Table(*HEADINGS, box=None, pad_edge=False)
    styles = dict.fromkeys(("failed", "error", "aborted"), "bold red") | {"passed": "green"}
    for word, *cells in rows(night):
        table.add_row(Text(word, styles[word]), *map(Text, cells))
    console.print(table)
    for missed in night.missed:
        of, count = missed.task.pair.name, missed.task.trials
        print(f"not reached: {of}, {count} of each arm: {missed.reason}")
    for line in _excluded(night):
        print(line)
    word, reason = outcome(night)
    console.print(Text(f"\n{word}: {reason}", styles[word]), soft_wrap=True)
    print(f"nightly.md, nightly.json and junit.xml are in {directory.path}")


def _excluded(night: Night) -> Iterator[str]:
    """Yield what cannot run here; labs that an experiment does not fit in one line."""
    misfits: dict[str, list[str]] = {}
    for one in night.excluded:
        if one.is_misfit:
            misfits.setdefault(one.experiment, []).append(one.lab)
        else:
            yield f"cannot run here: {one.name}: {one.reason}"
    for experiment, labs in misfits.items():
        yield f"{experiment} does not fit {', '.join(labs)}"
