"""The command `twin`, and how other commands are run inside a twin."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from testbed.cli.app import (
    JsonOption,
    SetOption,
    app,
    argument,
    print_json,
    seconds_of,
    with_bare_options,
)
from testbed.cli.completion import far_end_faults, instruments, labs, twins
from testbed.cli.file_lookup import (
    COMMAND_VARIABLE,
    LAB_VARIABLE,
    chosen_lab,
    lab_file,
    typed_lab,
)
from testbed.errors import UsageError
from testbed.report.waiting_message import waiting
from testbed.schema import Lab, load_lab, split_overrides
from testbed.twin import NEW_TWIN, registry, sandbox
from testbed.twin.characterisation import check_cards, settings_of
from testbed.twin.control_socket import ask
from testbed.twin.machine import PROCESSES, TWIN_VARIABLE
from testbed.units import RATE

twin_app = typer.Typer(
    help="Keep a twin of a lab for several commands.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(twin_app, name="twin")

TwinName = Annotated[str, argument("NAME", "The twin's name.", twins)]
InstrumentName = Annotated[str, argument(None, "An instrument of its lab.", instruments)]


@twin_app.command(epilog="Examples: testbed twin up rack; testbed switch ocs show --twin rack")
def up(
    lab: Annotated[str, argument("LAB", "Lab file or name.", labs)],
    name: Annotated[str, typer.Option("--name", help="Its name; the lab's own by default.")] = "",
    set_: SetOption = [],  # noqa: B006 - typer wants it so
) -> None:
    """Start a twin that keeps running, and print its name."""
    path = lab_file(lab)
    found = load_lab(path, set_)
    name = name or found.lab
    registry.check_name(name)
    check_cards(found)
    with waiting(f"building the twin of {found.lab}", sys.stderr, stays=True):
        box = sandbox.start(name, path, set_, log=registry.log_file(name))
    try:
        registry.register(box, path, found.lab)
    except BaseException:  # a signal, say: its name would not be known
        box.end()
        raise
    print(name)


@twin_app.command(epilog="Example: testbed twin down rack")
def down(name: TwinName) -> None:
    """Stop a twin and everything that runs in it; runs in it put back what they changed first."""
    registry.take_down(name, lambda text: print(text, file=sys.stderr, flush=True))
    print(f"twin {name} is down")


@twin_app.command(epilog="Example: testbed twin shell rack h0")
def shell(
    name: TwinName,
    host: Annotated[str, typer.Argument(help="One of its hosts, instead of the controller.")] = "",
) -> int:
    """Open a shell inside a twin: on the controller's side, or on a host."""
    twin = registry.find(name)
    os.environ[LAB_VARIABLE] = twin.lab_file
    return twin.sandbox.shell([os.environ.get("SHELL", "/bin/sh")], host)


@twin_app.command(name="list", epilog="Example: testbed twin list")
def list_(json: JsonOption = False) -> None:
    """List the twins that are running."""
    rows = [{"name": twin.name, "lab": twin.lab_file} for twin in registry.standing()]
    if json:
        print_json(rows)
        return
    for row in rows:
        print("\t".join(row.values()))


@twin_app.command(epilog="Example: testbed twin fault rack ocs silent --count 1 --command ADD")
def fault(
    name: TwinName,
    instrument: InstrumentName,
    fault: Annotated[
        str,
        argument(None, "What it shall do wrong; drivers/README lists all.", far_end_faults),
    ],
    count: Annotated[
        int | None, typer.Option(min=1, help="How often; until cleared by default.")
    ] = None,
    command: Annotated[str, typer.Option(help="Only where the command contains this.")] = "",
    port: Annotated[str, typer.Option(help="Only for this port or outlet.")] = "",
    probability: Annotated[float, typer.Option(min=0.0, max=1.0, help="How likely each time.")] = 1,
    delay: Annotated[str, typer.Option(help="How long, as '200 ms', for what takes time.")] = "0 s",
) -> int:
    """Make the far end of an instrument simulate a fault, until `testbed twin clear` ends it."""
    if TWIN_VARIABLE not in os.environ:
        return registry.find(name).sandbox.run(this_command())
    scope: dict[str, Any] = {"count": count, "command": command, "probability": probability}
    scope["delay"] = seconds_of("--delay", delay)
    if port:
        scope["port"] = int(port) if port.isdecimal() else port
    ask({"do": "fault", "instrument": instrument, "fault": fault, "scope": scope})
    clear = f"until you type: testbed twin clear {name} {instrument}"
    how_long = clear if count is None else f"the next {count} times"
    print(f"{instrument} of twin {name} does {fault}, {how_long}")
    return 0


@twin_app.command(epilog="Example: testbed twin clear rack ocs")
def clear(
    name: TwinName,
    instrument: InstrumentName,
) -> int:
    """Clear every fault of the far end of an instrument."""
    if TWIN_VARIABLE not in os.environ:
        return registry.find(name).sandbox.run(this_command())
    ask({"do": "clear", "instrument": instrument, "fault": ""})
    print(f"{instrument} of twin {name} has no fault any more")
    return 0


@twin_app.command(epilog="Example: testbed twin power rack h4 off")
def power(
    name: TwinName,
    host: Annotated[str, typer.Argument(help="One of its hosts.")],
    state: Annotated[Literal["on", "off"], typer.Argument(help="Plug the cord in, or pull it.")],
) -> int:
    """Cut or restore the power of a twin's host without its power unit, as by its cord."""
    if TWIN_VARIABLE not in os.environ:
        return registry.find(name).sandbox.run(this_command())
    ask({"do": "power", "host": host, "on": state == "on"})
    print(f"the cord of {host} of twin {name} is {'plugged in' if state == 'on' else 'pulled'}")
    return 0


def named_lab(name: str, twin: str = "", overrides: Sequence[str] = ()) -> tuple[Lab, Path]:
    """Return the lab of a command with its overrides from the command line, and its file."""
    file = chosen_lab(name, twin)
    _, theirs = split_overrides(overrides)
    return load_lab(file, theirs), file


def inside_twin(twin: str, lab: Lab, file: Path, overrides: list[str]) -> int:
    """Run this same command line inside a twin; return its exit code.

    `twin` is the name of a running twin, or NEW_TWIN for one that is started for this command only.
    """
    command = this_command()
    os.environ[COMMAND_VARIABLE] = command_line()
    check_cards(lab)
    if twin != NEW_TWIN:
        standing = registry.find(twin)
        if standing.lab:
            _check_lab(standing.lab, standing.lab_file, lab)
        os.environ[LAB_VARIABLE] = standing.lab_file
        return standing.sandbox.run(command)
    os.environ.pop(LAB_VARIABLE, None)
    _, theirs = split_overrides(overrides)
    with waiting(f"building the twin of {lab.lab}", sys.stderr, stays=True):
        box = sandbox.start(lab.lab, file, theirs)
    try:
        return box.run(command)
    finally:
        box.end()


def is_inside_twin(lab: Lab) -> bool:
    """Return whether this process is in a twin; raise UsageError for the twin of another lab."""
    if TWIN_VARIABLE not in os.environ:
        return False
    theirs = ask({"do": "describe"})["lab"]
    _check_lab(theirs, os.environ.get(LAB_VARIABLE, theirs), lab)
    return True


def with_settle_of_twin(lab: Lab) -> Lab:
    """Return a lab; in a twin its drivers wait for as long as the switches settle there now."""
    if TWIN_VARIABLE not in os.environ:
        return lab
    from testbed.bench.characterisation import with_time_to_settle

    return with_time_to_settle(lab, CurrentTwin().tuning()["settle"])


def _check_lab(theirs: str, file: str, lab: Lab) -> None:
    if theirs != lab.lab:
        option = shlex.join(["--lab", typed_lab(theirs, Path(file))])
        raise UsageError(
            f"this is a twin of lab {theirs}, not of {lab.lab}", hint=f"name it with {option}"
        )


def check_rate(lab: Lab) -> None:
    """Raise UsageError for a lab whose link rate differs from that of the running twin."""
    made_with = ask({"do": "describe"})["rate"]
    if made_with != lab.twin.rate:
        made, wanted = (RATE.format(rate) for rate in (made_with, lab.twin.rate))
        raise UsageError(
            f"the lines of this twin have the rate {made}, and lab {lab.lab} says {wanted}",
            hint=f"add -S 'lab.twin.rate={made}', or start a twin with the rate of the lab",
        )


class CurrentTwin:
    """The twin in which this process runs, with the operations that a run needs."""

    @property
    def processes(self) -> Path:
        """Return the /proc directory that shows the processes of the twin and its hosts."""
        return PROCESSES

    def settings_of(self, lab: Lab) -> dict[str, Any]:
        """Return the settings that the twin of a lab should have."""
        return settings_of(lab)

    def tuning(self) -> dict[str, Any]:
        """Return the present settings of the twin."""
        settings: dict[str, Any] = ask({"do": "tuning"})
        return settings

    def tune(self, settings: Mapping[str, Any]) -> None:
        """Change the settings of the running twin."""
        ask({"do": "tune", "settings": settings})

    def fault(self, instrument: str, name: str, scope: dict[str, Any]) -> None:
        """Make a far end simulate the fault `name`, within a scope."""
        ask({"do": "fault", "instrument": instrument, "fault": name, "scope": scope})

    def clear(self, instrument: str, name: str) -> None:
        """Clear a fault of a far end; do nothing when it is not active."""
        ask({"do": "clear", "instrument": instrument, "fault": name})

    def struck(self, instrument: str, name: str) -> int:
        """Return how often a fault has taken effect since the twin started."""
        count: int = ask({"do": "struck", "instrument": instrument, "fault": name})
        return count

    def destroyed(self) -> list[Mapping[str, Any]]:
        """Return the receivers that too much light has destroyed since the twin started."""
        found: list[Mapping[str, Any]] = ask({"do": "destroyed"})
        return found

    def known_faults(self, instrument: str) -> list[str]:
        """Return the faults that a far end can simulate."""
        known: list[str] = ask({"do": "known-faults", "instrument": instrument})
        return known


def command_line() -> str:
    """Return this command line, quoted for a shell."""
    return shlex.join(["testbed", *sys.argv[1:]])


def this_command() -> list[str]:
    """Return this command line for use inside a twin: without `--twin` and its name."""
    kept: list[str] = []
    skip = False
    for word in with_bare_options(sys.argv[1:]):
        if skip:
            skip = False
        elif word == "--twin":
            skip = True
        elif not word.startswith("--twin="):
            kept.append(word)
    return [sys.executable, "-m", "testbed.cli", *kept]
