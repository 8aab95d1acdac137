"""The command `recover`: undo the changes that dead runs left behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from testbed.cli.app import (
    RESULTS,
    JsonOption,
    LabOption,
    RecordsOption,
    TwinOption,
    app,
    argument,
    print_json,
)
from testbed.cli.completion import run_names
from testbed.cli.exit_on_signal import record_signals
from testbed.cli.file_lookup import lab_file, typed_lab
from testbed.cli.lease_stores import leases_of
from testbed.cli.twins import CurrentTwin, this_command, with_settle_of_twin
from testbed.commands import set_context, typed
from testbed.errors import (
    EXIT_PASSED,
    EXIT_SIGNALLED,
    EXIT_UNSAFE,
    LabError,
    TestbedError,
    UsageError,
)
from testbed.files import is_directory
from testbed.record.log import read_events
from testbed.record.rundir import RunDirectory, find_run
from testbed.report.non_blocking_writer import PATIENCE, NonBlockingWriter
from testbed.schema import Lab, load_lab
from testbed.secret import masked
from testbed.twin import registry
from testbed.twin.machine import IDENTITY_VARIABLE, TWIN_VARIABLE
from testbed.twin.sandbox import Sandbox, is_gone

if TYPE_CHECKING:
    from testbed.analysis.recover_attempts import RecoverAttempt
    from testbed.events import Event, Subscriber
    from testbed.run.crash_recovery.crashed_runs import CrashedRun

_NO_CHANGE = "its journal has no change to undo"
_GONE = "the twin that it ran in is gone, and with it all that was changed there"


@app.command(
    epilog="Examples: testbed recover; testbed recover latest; testbed recover --lab rack --json"
)
def recover(
    run: Annotated[
        list[str] | None,
        argument(
            "[RUN]...",
            "A run's directory, its name, its end, or `latest`; all that need it by default.",
            run_names,
        ),
    ] = None,
    lab: LabOption = "",
    twin: TwinOption = "",
    results: RecordsOption = RESULTS,
    json: JsonOption = False,
) -> int:
    """Undo the changes of runs that were killed, verify that, and list what is still changed."""
    if twin:  # its leases are known inside
        return registry.find(twin).sandbox.run(this_command())
    writer = NonBlockingWriter(sys.stderr)
    chosen, unreadable = _chosen(run or [], lab, results, writer)
    outcomes = _recover_all(chosen, results, writer)
    writer.flush(PATIENCE)
    if json:
        print_json([outcome.to_json() for outcome in outcomes])
    else:
        for outcome in outcomes:
            _print(outcome)
        if not outcomes and not unreadable:
            print("nothing is left to take back")
            where = f"looked in {results} and among this machine's leases"
            if TWIN_VARIABLE not in os.environ:
                where += "; a twin that is up has its own: --twin NAME"
            print(where, file=sys.stderr)
    return _worst([*unreadable, *(outcome.code for outcome in outcomes)])


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The result of recovering one run."""

    dead: CrashedRun
    code: int
    done: RecoverAttempt | None = None
    """The steps that were taken now; None for none."""
    error: str = ""
    """The error that prevented its recovery."""

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        done = asdict(self.done) if self.done else {}
        return {"run": self.dead.directory.id, **done, "exit_code": self.code, "error": self.error}


def _chosen(
    names: list[str], lab: str, results: Path, writer: NonBlockingWriter
) -> tuple[list[CrashedRun], list[int]]:
    """Return the named runs, or all dead runs with an open undo.

    Return besides an exit code for each that cannot be read.
    """
    from testbed.run.crash_recovery.crashed_runs import runs_to_recover

    if results != RESULTS and not is_directory(results):
        raise UsageError(f"{results} is not a directory", hint="name it with --results")
    known = load_lab(lab_file(lab)) if lab else None
    leases = leases_of(known)
    if not names:  # one that recovered a run may have been killed before it gave all back
        leases.remove_ended()
    leased = [_where_it_is(run, results) for run in leases.dead_runs()]
    places = [_named(name, results, leased) for name in names] or runs_to_recover(results, leased)
    found, unreadable = _readable(places, writer)
    wanted = [dead for dead in found if not _is_elsewhere(dead, known)]
    if names and len(wanted) < len(found):
        (other, *_) = (dead for dead in found if dead not in wanted)
        raise UsageError(
            f"{other.directory.id} ran on {other.lab_name or 'no lab'}, not on the lab or twin "
            "that was named",
            hint="name its directory, without a lab or a twin",
        )
    return wanted, unreadable


def _is_elsewhere(dead: CrashedRun, known: Lab | None) -> bool:
    """Return whether a run was on another lab than the one named, or outside this twin."""
    here = os.environ.get(IDENTITY_VARIABLE, dead.twin)
    return (known is not None and dead.lab_name != known.lab) or dead.twin != here


def _where_it_is(run: RunDirectory, results: Path) -> RunDirectory:
    """Return a dead run's directory, which may have been moved to `results` with all of them."""
    moved = results / run.id
    is_moved = is_directory(moved) and not is_directory(run.path)
    return RunDirectory(moved.resolve()) if is_moved else run


def _named(name: str, results: Path, leased: list[RunDirectory]) -> RunDirectory:
    """Return the run of a name; a dead run with leases may be in another directory."""
    return next((run for run in leased if run.id == name), None) or find_run(results, name)


def _readable(
    places: Iterable[RunDirectory], writer: NonBlockingWriter
) -> tuple[list[CrashedRun], list[int]]:
    """Return the runs of directories, and an exit code for each that cannot be read."""
    from testbed.run.crash_recovery.crashed_runs import CrashedRun

    found, codes = [], []
    for place in places:
        try:
            if not is_directory(place.path):
                raise UsageError(
                    f"run {place.id} crashed and left changes, but its directory {place.path} "
                    "does not exist",
                    hint="name the directory that it was moved to with --results, or undo the "
                    "changes by hand and release what `testbed who` shows with `unlock --force`",
                )
            found.append(CrashedRun.read(place))
        except UsageError as error:
            writer.write(f"testbed: {masked(str(error))}\n")
            codes.append(EXIT_UNSAFE)
    return found, codes


def _recover_all(
    chosen: list[CrashedRun], results: Path, writer: NonBlockingWriter
) -> list[_Outcome]:
    """Recover each run on its own backend: the lab's hardware, or its twin."""
    here = os.environ.get(IDENTITY_VARIABLE, "")
    # From inside a twin the others cannot be seen, and nothing of theirs was chosen.
    up = {} if here else {t.sandbox.identity: t.sandbox for t in registry.standing()}
    outcomes = []
    inside: dict[str, list[CrashedRun]] = {}
    for dead in chosen:
        if dead.is_on_twin and dead.twin != here:
            inside.setdefault(dead.twin, []).append(dead)
        else:
            outcomes.append(_tried(dead, _recover_here, writer))
    for identity, group in inside.items():
        if identity in up:
            outcomes += _recover_inside(up[identity], group, results)
        else:
            outcomes += [_tried(dead, _write_off, writer) for dead in group]
    return outcomes


def _tried(
    dead: CrashedRun, act: Callable[[CrashedRun, Subscriber], int], writer: NonBlockingWriter
) -> _Outcome:
    """Recover one run; an error does not prevent the recovery of the others."""
    before = len(_recoveries(dead))
    try:
        code, problem = act(dead, partial(_tell, writer)), ""
    except TestbedError as error:
        code, problem = error.exit_code, masked(str(error))
    except Exception as error:  # its files may hold anything
        code, problem = EXIT_UNSAFE, masked(f"its record cannot be used: {error!r}")
    if problem:
        writer.write(f"testbed: {dead.directory.id}: {problem}\n")
    done = _recoveries(dead)[before:]
    return _Outcome(dead, code, done[-1] if done else None, problem)


def _recover_here(dead: CrashedRun, tell: Subscriber) -> int:
    if dead.is_model:
        return EXIT_PASSED
    from testbed.run.crash_recovery.recover import recover as replay
    from testbed.run.inbox import Inbox

    if not dead.is_on_twin:  # hints name the lab of each run
        set_context(lab=typed_lab(dead.lab_name, dead.directory.path / "lab.yaml"))
    inbox = Inbox()
    try:
        with record_signals(inbox.interrupt):
            lab = with_settle_of_twin(dead.lab())
            twin = CurrentTwin() if dead.is_on_twin else None
            code = replay(dead.directory, lab, leases_of(lab), inbox, twin, tell)
    finally:
        inbox.close()
    if inbox.signals and code != EXIT_UNSAFE:
        return EXIT_SIGNALLED + inbox.signals[0]
    return code


def _recover_inside(box: Sandbox, group: list[CrashedRun], results: Path) -> list[_Outcome]:
    """Recover runs inside their twin; the results are in their records."""
    before = [len(_recoveries(dead)) for dead in group]
    paths = [str(dead.directory.path.resolve()) for dead in group]
    command = [sys.executable, "-m", "testbed.cli", "recover", *paths, "--results", str(results)]
    code = box.run(command, quiet=True)
    outcomes = []
    for dead, count in zip(group, before, strict=True):
        done = next(reversed(_recoveries(dead)[count:]), None)
        ended = code if done is None or done.exit_code is None else done.exit_code
        problem = "its twin could not recover it, as said above" if ended and not done else ""
        outcomes.append(_Outcome(dead, ended, done, problem))
    return outcomes


def _write_off(dead: CrashedRun, tell: Subscriber) -> int:
    """Settle the journal of a run whose twin is known to be gone."""
    from testbed.run.crash_recovery.recover import write_off

    if not is_gone(dead.twin):
        raise LabError(
            "the twin of this run was not found among the running twins of this user",
            hint="recover it on the machine, and as the user, that started the twin, with the same "
            "XDG_RUNTIME_DIR and TMPDIR",
        )
    return write_off(dead.directory, _GONE, tell)


def _worst(codes: list[int]) -> int:
    """Return one exit code for several runs: EXIT_UNSAFE wins."""
    return EXIT_UNSAFE if EXIT_UNSAFE in codes else max(codes, default=EXIT_PASSED)


def _tell(writer: NonBlockingWriter, event: Event) -> None:
    """Print each step on the terminal, as it may take as long as a host needs to start."""
    if event.kind == "recover.begin":
        writer.write(f"recovering {event.subject}\n")
    elif event.kind == "cleanup.begin":
        writer.write(f"  taking back {event.subject}\n")


def _recoveries(dead: CrashedRun) -> list[RecoverAttempt]:
    from testbed.analysis.recover_attempts import recoveries

    try:
        return recoveries(list(read_events(dead.directory.events)))
    except Exception:  # it may hold anything; its readers say where it is broken
        return []


def _print(outcome: _Outcome) -> None:
    run, done = outcome.dead.directory, outcome.done
    print(f"{run.id}, on {outcome.dead.lab_name or 'no lab'}")
    if done is None:
        none = "a model changes no device" if outcome.dead.is_model else _NO_CHANGE
        print(f"  not recovered: {outcome.error}" if outcome.code else f"  {none}")
        return
    for step in done.steps:
        print(f"  {'FAIL' if step.problem else 'ok  '} {step.what}")
        for note in step.notes:
            print(f"       {note}")
    for left in done.left:
        print(f"  LEFT {left}")
    if outcome.code == EXIT_PASSED:
        print("  all is as it was before the run, or as said above")
    else:
        print(f"  mend that, then type: {typed('recover', str(run.path))}")
