"""The command line application, and the options that several commands share."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from testbed import __version__
from testbed.cli import completion
from testbed.cli.exit_on_signal import explain_signal_exit
from testbed.cli.file_lookup import RESULTS as RESULTS
from testbed.cli.file_lookup import results_to_read
from testbed.errors import UsageError
from testbed.plugins import nearest
from testbed.twin import NEW_TWIN
from testbed.units import TIME

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """The modules that define a command, and its line in `testbed --help`."""

    summary: str
    modules: tuple[str, ...]


COMMANDS = {
    "run": CommandEntry("Run an experiment and record it.", ("running",)),
    "plan": CommandEntry(
        "Print exactly what `run` would do; open and touch nothing.", ("planning",)
    ),
    "report": CommandEntry("Compute a run's numbers again and print them.", ("list_report",)),
    "compare": CommandEntry("Hold runs against each other, or two cards.", ("comparing",)),
    "profile": CommandEntry(
        "Print a job's stages on rails, and what slow circuits would cost.", ("profiling",)
    ),
    "opus": CommandEntry("Have shims of Opus move a lab's rails, or emulated ones.", ("opus",)),
    "propius": CommandEntry("Serve a part of Propius: jobs that share clients.", ("propius",)),
    "list": CommandEntry("List experiments, labs, runs, drivers, faults, …", ("list_report",)),
    "export": CommandEntry("Print every number of runs as CSV, or write Parquet.", ("exporting",)),
    "validate": CommandEntry("Check files; name file:line:column of each mistake.", ("files",)),
    "schema": CommandEntry("Print the JSON Schema of a file format.", ("files",)),
    "doctor": CommandEntry("Check this machine, or everything in a lab.", ("doctor",)),
    "discover": CommandEntry(
        "Ask which instruments answer, as a block for a lab file.", ("discovery",)
    ),
    "switch": CommandEntry("Show, watch or change a switch's circuits.", ("switch",)),
    "twin": CommandEntry(
        "Keep a twin of a lab for several commands.", ("twins", "characterisation")
    ),
    "who": CommandEntry("Show who has leased what.", ("leases",)),
    "lock": CommandEntry("Lease parts of a lab by hand.", ("leases",)),
    "unlock": CommandEntry("Give leases back, with --force those of others.", ("leases",)),
    "queue": CommandEntry("Show the queue of a lab; move or cancel what waits.", ("queue",)),
    "nightly": CommandEntry("Run every experiment on the twin of every lab it fits.", ("nightly",)),
    "clean": CommandEntry("Delete old runs that are not needed.", ("cleaning",)),
    "recover": CommandEntry("Take back what killed runs left changed.", ("recovering",)),
}
"""Every command, in the order of `testbed --help`."""


class LazyCommands(TyperGroup):
    """Import only the modules of the requested command.

    Importing all modules takes half a second, which `--help` and completion do not need.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, after importing its modules; None when there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        with explain_signal_exit(lambda: ["nothing was opened or changed"]):
            return _command(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the arguments begin with, or fail with the nearest name."""
        if args[0] not in COMMANDS:
            ctx.fail(f"No such command {args[0]!r}; {nearest(args[0], list(COMMANDS))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the table of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.summary) for name, verb in COMMANDS.items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the commands and options that begin with `incomplete`; import none of them."""
        from typer._click.shell_completion import CompletionItem  # typer has no public name for it

        found = [name for name in COMMANDS if name.startswith(incomplete)]
        options = super(TyperGroup, self).shell_complete(ctx, incomplete)
        return [*(CompletionItem(name, help=COMMANDS[name].summary) for name in found), *options]


app = typer.Typer(
    cls=LazyCommands,
    name="testbed",
    help="Run optical-fabric ML experiments on a lab, or on the live twin of that lab.",
    epilog="Start with: testbed run experiments/lumion.yaml --twin",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@cache
def command_line() -> Any:
    """Return what parses and runs a command line; it is made once."""
    return typer.main.get_command(app)


@cache
def _command(name: str) -> Any:
    """Return a command, after importing its modules; it is made once."""
    for module in COMMANDS[name].modules:
        import_module(f"testbed.cli.{module}")
    return typer.main.get_group(app).commands[name]


def argument(metavar: str | None, help_: str, complete: completion.Names | None = None) -> Any:
    """Declare an argument of a command: its name, help text and completion."""
    return typer.Argument(metavar=metavar, help=help_, autocompletion=complete)


def _refuse_empty(context: typer.Context, name: str) -> str:
    """Return a lab's name; raise UsageError if `--lab` is given with an empty value."""
    source = context.get_parameter_source("lab")
    if not name and source is not None and source.name == "COMMANDLINE":
        hint = "leave --lab out for the default; is a variable of the shell unset?"
        raise UsageError("--lab is given without a name", hint=hint)
    return name


ExperimentFile = Annotated[
    str,
    argument(
        "EXPERIMENT", "Experiment file, or the name of one in experiments/.", completion.experiments
    ),
]
LabOption = Annotated[
    str,
    typer.Option(
        "--lab",
        metavar="LAB",
        help="Lab file, or the name of one in configs/; that of a named twin by default.",
        autocompletion=completion.labs,
        show_default=False,
        callback=_refuse_empty,
    ),
]
TwinOption = Annotated[
    str,
    typer.Option(
        "--twin",
        metavar="[NAME]",
        help="Use a twin of the lab: one of its own, or the one called NAME that is up.",
        autocompletion=completion.twins,
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
        autocompletion=completion.set_keys,
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
QueueOption = Annotated[
    float | None,
    typer.Option(
        "--queue",
        metavar="[=SECONDS]",
        min=0.0,
        help="Wait in the lab's queue for a turn: for ever, or at most so long.",
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
    """Rewrite `--twin` without a name, and `--wait-lock` or `--queue` without a value, in full.

    A name follows unless the next argument is an option, a file or missing.
    """
    spelt: list[str] = []
    for index, word in enumerate(arguments):
        after = arguments[index + 1] if index + 1 < len(arguments) else "-"
        is_bare = word == "--twin" and (
            after.startswith("-") or "/" in after or after.endswith((".yaml", ".yml"))
        )
        if word in ("--wait-lock", "--queue"):
            spelt.append(f"{word}=inf")
        else:
            spelt.append(f"--twin={NEW_TWIN}" if is_bare else word)
    return spelt


def terminal() -> Console:
    """Return the console for standard output, without markup, since file contents may hold any.

    Lines are wrapped only on a terminal, or where COLUMNS gives a width.
    """
    from testbed.report.console import CleanConsole

    console = CleanConsole(sys.stdout)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _UNWRAPPED
    return console


def page_width() -> int:
    """Return the width of a line on standard output as `terminal` has it, but import nothing."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return _UNWRAPPED
    return shutil.get_terminal_size().columns


def seconds_of(option: str, text: str) -> float:
    """Parse the duration given to an option; raise UsageError for anything else."""
    try:
        return TIME.parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def address_of(option: str, text: str) -> tuple[str, int]:
    """Parse the host and port given to an option; raise UsageError for anything else."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise UsageError(f"{option}: {text!r} is no HOST:PORT", hint="write it as 127.0.0.1:1234")
    return host, int(port)


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
