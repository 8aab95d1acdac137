"""The verbs, and what they have in common."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testbed import __version__
from testbed.cli.finding import RESULTS as RESULTS
from testbed.cli.finding import results_to_read
from testbed.twin.registry import NEW_TWIN

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    name="testbed",
    help="Run optical-fabric ML experiments on a lab, or on the live twin of that lab.",
    epilog="Start with: testbed run experiments/lumion.yaml --twin",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ExperimentFile = Annotated[
    str,
    typer.Argument(
        metavar="EXPERIMENT",
        help="Experiment file, or the name of one in experiments/.",
        show_default=False,
    ),
]
LabOption = Annotated[
    str,
    typer.Option(
        "--lab",
        metavar="LAB",
        help="Lab file, or the name of one in configs/; that of a named twin by default.",
        show_default=False,
    ),
]
TwinOption = Annotated[
    str,
    typer.Option(
        "--twin",
        metavar="[NAME]",
        help="Use a twin of the lab: one of its own, or the one called NAME that is up.",
        show_default=False,
    ),
]
SetOption = Annotated[
    list[str],
    typer.Option(
        "-S",
        "--set",
        metavar="KEY=VALUE",
        help="Set a field, by its dotted key; `lab.` begins those of the lab. Repeatable.",
        show_default=False,
    ),
]
WaitOption = Annotated[
    float,
    typer.Option(
        "--wait-lock",
        metavar="[=SECONDS]",
        min=0.0,
        help="Wait for what others have leased: for ever, or at most so long.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
ResultsOption = Annotated[
    Path, typer.Option("--results", metavar="DIR", help="Where run directories are.")
]
RecordsOption = Annotated[
    Path,
    typer.Option(
        "--results", metavar="DIR", help="Where run directories are.", callback=results_to_read
    ),
]
_UNWRAPPED = 10_000
"""Columns of what is no terminal, where `grep` and its like want lines whole."""


def with_bare_options(arguments: list[str]) -> list[str]:
    """Return the arguments with `--twin` without a name, and `--wait-lock` alone, spelt out.

    A name follows unless the next argument is an option, a file or missing.
    """
    spelt: list[str] = []
    for index, argument in enumerate(arguments):
        after = arguments[index + 1] if index + 1 < len(arguments) else "-"
        is_bare = argument == "--twin" and (
            after.startswith("-") or "/" in after or after.endswith((".yaml", ".yml"))
        )
        if argument == "--wait-lock":
            spelt.append("--wait-lock=inf")
        else:
            spelt.append(f"--twin={NEW_TWIN}" if is_bare else argument)
    return spelt


def terminal() -> Console:
    """Return standard output for pages; names in them come from files, so nothing is markup.

    What is no terminal is given whole lines, unless COLUMNS says how wide it is.
    """
    from rich.console import Console

    console = Console(markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _UNWRAPPED
    return console


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    json.dump(value, sys.stdout, indent=1, ensure_ascii=False)
    print()


def _version(wanted: bool) -> None:
    if wanted:
        print(f"testbed {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Say what every command has in common."""
