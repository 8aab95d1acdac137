"""The verb `recover`: what runs that are over left changed, taken back."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.cli.app import (
    RESULTS,
    JsonOption,
    LabOption,
    ResultsOption,
    TwinOption,
    app,
    lab_file,
    print_json,
)
from testbed.cli.ending import EXIT_SIGNALLED, noting_signals
from testbed.cli.leases import leases_of
from testbed.cli.twins import TwinAround
from testbed.errors import EXIT_PASSED, EXIT_UNSAFE, TestbedError, UsageError
from testbed.record.log import read_events
from testbed.record.rundir import RunDirectory, find_run
from testbed.report.teller import PATIENCE, Teller
from testbed.schema import load_lab
from testbed.secret import masked
from testbed.twin import registry
from testbed.twin.machine import IDENTITY_VARIABLE
from testbed.twin.sandbox import Sandbox

if TYPE_CHECKING:
    from testbed.analysis.recovered import Recovered
    from testbed.events import Event
    from testbed.run.dead_runs import DeadRun

_GONE = "the twin that it ran in is gone, and with it all that was changed there"


@app.command(
    epilog="Examples: testbed recover; testbed recover latest; testbed recover --lab rack --json"
)
def recover(
    run: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="A run's directory, its name, its end, or `latest`; all that need it by default.",
        ),
    ] = None,
    lab: LabOption = "",
    twin: TwinOption = "",
    results: ResultsOption = RESULTS,
    json: JsonOption = False,
) -> int:
    """Take back what runs that were killed left changed, verify it, and say what is still so."""
    teller = Teller(sys.stderr)
    chosen, unreadable = _chosen(run or [], lab, twin, results, teller)
    code = _worst(unreadable + _recover_all(chosen, results, teller))
    teller.go_on(PATIENCE)
    found = [(dead, _last(dead)) for dead in chosen]
    if json:
        rows = [
            {"run": dead.directory.id, **(done.to_json() if done else {})} for dead, done in found
        ]
        print_json(rows)
        return code
    for dead, done in found:
        _print(dead, done)
    if not found:
        print("nothing is left to take back")
    return code


def _chosen(
    names: list[str], lab: str, twin: str, results: Path, teller: Teller
) -> tuple[list[DeadRun], list[int]]:
    """Return the runs that are meant: those named, or all that are over and owe something.

    Return besides an exit code for each that is no readable run.
    """
    from testbed.run.dead_runs import owing_runs

    known = load_lab(lab_file(lab)) if lab else None
    leased = leases_of(known).dead_runs()
    places = [_named(name, results, leased) for name in names] or owing_runs(results, leased)
    found, unreadable = _readable(places, teller)
    if known:
        found = [dead for dead in found if dead.lab_name == known.lab]
    if twin:
        identity = registry.find(twin).sandbox.identity
        found = [dead for dead in found if dead.twin == identity]
    if here := os.environ.get(IDENTITY_VARIABLE):
        found = [dead for dead in found if dead.twin == here]
    return found, unreadable


def _named(name: str, results: Path, leased: list[RunDirectory]) -> RunDirectory:
    """Return the run of a name, which may be elsewhere when it died and left leases."""
    return next((run for run in leased if run.id == name), None) or find_run(results, name)


def _readable(places: Iterable[RunDirectory], teller: Teller) -> tuple[list[DeadRun], list[int]]:
    """Return the runs of directories; of each that cannot be read, nobody knows what it changed."""
    from testbed.run.dead_runs import DeadRun

    found, codes = [], []
    for place in places:
        try:
            found.append(DeadRun.read(place))
        except UsageError as error:
            teller.tell(f"testbed: {masked(str(error))}\n")
            codes.append(EXIT_UNSAFE)
    return found, codes


def _recover_all(chosen: list[DeadRun], results: Path, teller: Teller) -> list[int]:
    """Recover each run where it was: on the lab's hardware, or in its twin; return exit codes."""
    here = os.environ.get(IDENTITY_VARIABLE, "")
    # From inside a twin the others cannot be seen, and nothing of theirs was chosen.
    up = {} if here else {t.sandbox.identity: t.sandbox for t in registry.standing()}
    codes: list[int] = []
    inside: dict[str, list[DeadRun]] = {}
    for dead in chosen:
        if dead.is_on_twin and dead.twin != here:
            inside.setdefault(dead.twin, []).append(dead)
        else:
            codes.append(_recover_here(dead, teller))
    for identity, group in inside.items():
        if identity in up:
            codes.append(_recover_inside(up[identity], group, results))
        else:
            codes += [_write_off(dead, teller) for dead in group]
    return codes


def _recover_here(dead: DeadRun, teller: Teller) -> int:
    from testbed.run.inbox import Inbox
    from testbed.run.recover import recover as replay

    inbox = Inbox()
    try:
        with noting_signals(inbox.interrupt):
            lab = dead.lab()
            twin = TwinAround() if dead.is_on_twin else None
            tell = partial(_tell, teller)
            code = replay(dead.directory, lab, leases_of(lab), inbox, twin, tell)
    except TestbedError as error:
        return _failed(dead, error, teller)
    finally:
        inbox.close()
    return EXIT_SIGNALLED + inbox.signals[0] if inbox.signals else code


def _recover_inside(box: Sandbox, group: list[DeadRun], results: Path) -> int:
    """Recover runs inside their twin; what came of it is in their records."""
    paths = [str(dead.directory.path.resolve()) for dead in group]
    command = [sys.executable, "-m", "testbed.cli", "recover", *paths, "--results", str(results)]
    return box.run(command, quiet=True)


def _write_off(dead: DeadRun, teller: Teller) -> int:
    from testbed.run.recover import write_off

    try:
        return write_off(dead.directory, _GONE, partial(_tell, teller))
    except TestbedError as error:
        return _failed(dead, error, teller)


def _failed(dead: DeadRun, error: TestbedError, teller: Teller) -> int:
    teller.tell(f"testbed: {dead.directory.id}: {masked(str(error))}\n")
    return error.exit_code


def _worst(codes: list[int]) -> int:
    """Return the one exit code of several runs: what is known to be changed wins."""
    return EXIT_UNSAFE if EXIT_UNSAFE in codes else max(codes, default=EXIT_PASSED)


def _tell(teller: Teller, event: Event) -> None:
    """Say on the terminal what is being done, as it may take as long as a host needs to start."""
    if event.kind == "recover.begin":
        teller.tell(f"recovering {event.subject}\n")
    elif event.kind == "cleanup.begin":
        teller.tell(f"  taking back {event.subject}\n")


def _last(dead: DeadRun) -> Recovered | None:
    from testbed.analysis.recovered import recoveries

    try:
        done = recoveries(list(read_events(dead.directory.events)))
    except UsageError:  # whoever reads it elsewhere is told where it is broken
        return None
    return done[-1] if done else None


def _print(dead: DeadRun, done: Recovered | None) -> None:
    print(f"{dead.directory.id}, on {dead.lab_name or 'no lab'}")
    if done is None:
        print("  nothing was left to take back")
        return
    for step in done.steps:
        print(f"  {'FAIL' if step.problem else 'ok  '} {step.what}")
        for note in step.notes:
            print(f"       {note}")
    for left in done.left:
        print(f"  LEFT {left}")
    if done.exit_code == EXIT_PASSED:
        print("  all is as it was before the run, or as said above")
    else:
        print(f"  mend that, then type: testbed recover {dead.directory.id}")
