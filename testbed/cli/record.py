"""Create the run directory before the orchestrator starts, and compute its results at the end."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed import __version__
from testbed.cli.app import terminal
from testbed.cli.file_lookup import COMMAND_VARIABLE, typed_lab
from testbed.cli.files import Inputs
from testbed.cli.twins import command_line, is_inside_twin
from testbed.clock import utc
from testbed.commands import typed
from testbed.errors import BusyError, TestbedError, UsageError
from testbed.printable import unfiltered
from testbed.record.journal import has_entries, has_pending_undo
from testbed.record.log import EventLog, read_events
from testbed.record.rundir import RunDirectory
from testbed.report.waiting_message import waiting
from testbed.schema import Lab, effective_text, load_experiment, split_overrides
from testbed.secret import masked
from testbed.twin import registry
from testbed.twin.machine import IDENTITY_VARIABLE

if TYPE_CHECKING:
    from testbed.analysis.summary import Summary

_LIBRARIES = ("numpy", "paramiko", "pyserial", "pyvisa", "pyvisa-py", "scipy")


def open_record(results: Path, inputs: Inputs, label: str) -> tuple[RunDirectory, EventLog]:
    """Create the run directory, write the inputs to it, and open the event log."""
    from testbed.bench.bundle import digest
    from testbed.bench.health import troubles_of_results

    plan = inputs.plan
    directory = RunDirectory.create(results, plan.experiment)
    ours, _ = split_overrides(inputs.overrides)
    directory.write_text("experiment.yaml", effective_text(inputs.experiment.source, ours))
    directory.write_json("plan.json", plan.to_json())
    facts = _facts(directory, inputs.lab, inputs.overrides, label) | {
        "question": inputs.experiment.question,
        "seed": plan.seed,
        "plan": plan.digest(),
        "bundle": digest(),
        "versions": _versions(),
        "git": _git(),
        "machine": {"system": platform.platform(), "node": platform.node()},
    }
    directory.write_json("run.json", facts)
    log = EventLog(directory.events)
    log.append("run.begin", plan.experiment, clock=log.started, **facts)
    for trouble in troubles_of_results(results):
        log.append("health", "results", text=trouble)
    return directory, log


def open_check(
    lab: Lab,
    results: Path,
    name: str,
    overrides: Sequence[str] = (),
    *,
    is_latest: bool = True,
) -> tuple[RunDirectory, EventLog, dict[str, Any]]:
    """Create the run directory of a check without a plan; return it, its log and `run.json`."""
    directory = RunDirectory.create(results, name, is_latest=is_latest)
    label = "measured-twin" if is_inside_twin(lab) else "measured-hw"
    facts = _facts(directory, lab, overrides, label)
    directory.write_json("run.json", facts)
    log = EventLog(directory.events)
    log.append("run.begin", name, **facts)
    return directory, log, facts


def _facts(
    directory: RunDirectory, lab: Lab, overrides: Sequence[str], label: str
) -> dict[str, Any]:
    """Write the lab file of a run, and return what `run.json` says of every run."""
    _, theirs = split_overrides(overrides)
    directory.write_text("lab.yaml", effective_text(lab.source, theirs))
    return {
        "format": 1,
        "run": directory.id,
        "started": utc(),
        "command": os.environ.get(COMMAND_VARIABLE) or command_line(),
        "overrides": list(overrides),
        "label": label,
        "lab": lab.lab,
        "twin": os.environ.get(IDENTITY_VARIABLE),
    }


def close_check(
    directory: RunDirectory, facts: Mapping[str, Any], outcome: str, reason: str, **more: Any
) -> None:
    """Write the summary of a check that has no plan."""
    found = {"outcome": outcome, "reason": reason, **more}
    directory.write_json("summary.json", {**facts, **found})


@contextmanager
def temporary_record(lab: Lab, results: Path, overrides: Sequence[str]) -> Iterator[RunDirectory]:
    """Create a run directory for a manual change, which is deleted after success or refusal.

    After a failed change it is kept, since leases may refer to it and it may have open undo
    entries.
    """
    directory, log, facts = open_check(lab, results, "switch", overrides, is_latest=False)
    log.close()
    try:
        yield directory
    except (BusyError, UsageError):
        shutil.rmtree(directory.path, ignore_errors=True)
        raise
    except BaseException as error:
        if has_pending_undo(directory.journal):
            command = typed("recover", str(directory.path))
            print(f"it may still be changed; type: {command}", file=sys.stderr)
        elif isinstance(error, TestbedError):
            close_check(directory, facts, "failed", masked(str(error)))
        elif isinstance(error, SystemExit) and not has_entries(directory.journal):
            shutil.rmtree(directory.path, ignore_errors=True)  # a signal, before any change
        raise
    shutil.rmtree(directory.path, ignore_errors=True)


def sum_up(directory: RunDirectory) -> Summary:
    """Compute a run's numbers from its event log, and write summary.json and junit.xml.

    In a directory of another user nothing is written, and the reason is printed.
    """
    from testbed.analysis.steps import KINDS as STEPS
    from testbed.analysis.summary import summarise
    from testbed.analysis.trial_events import FREQUENT, UNREAD
    from testbed.report.junit import write_junit

    overrides, _ = split_overrides(_overrides(directory))
    experiment = load_experiment(directory.inside("experiment.yaml"), overrides)
    path = directory.events
    others = read_events(path, without=STEPS, frequent=FREQUENT)
    of_trials = read_events(path, without=UNREAD, frequent=FREQUENT)
    summary = summarise(directory.id, experiment, of_trials, others)
    if why := directory.foreign():
        print(f"testbed: nothing is written: {why}", file=sys.stderr)
        return summary
    directory.write_json("summary.json", summary.to_json())
    write_junit(summary, directory.path / "junit.xml")
    return summary


def last_page(summary: Summary, directory: RunDirectory, *, will_be_drawn: bool = True) -> str:
    """Return the last page of a run as text for this terminal."""
    from testbed.report.last_page import print_page

    console = terminal()
    # A lab file of another user is not suggested: it says where secrets of this one are sent.
    lab = "" if directory.foreign() else typed_lab(summary.lab, directory.path / "lab.yaml")
    twin = _running_twin(directory)
    with console.capture() as page:
        print_page(
            summary, directory.path, console, lab=lab, twin=twin, will_be_drawn=will_be_drawn
        )
    if console.is_terminal:
        return page.get()
    return "".join(f"{line.rstrip()}\n" for line in page.get().splitlines())


def _running_twin(directory: RunDirectory) -> str:
    """Return the name of the run's twin while that is up; empty where run.json does not tell."""
    try:
        identity = directory.read_json("run.json").get("twin")
    except UsageError:
        return ""
    return registry.name_of(str(identity)) if identity else ""


def draw(directory: RunDirectory, summary: Summary) -> None:
    """Write report.html, which takes a second or more because of its figures.

    Nothing is printed about it, so that the end of the last page stays the last output.
    """
    from testbed.analysis.steps import KINDS as STEPS

    if directory.foreign():
        return
    shown = waiting("drawing report.html", sys.stderr) if sys.stderr.isatty() else nullcontext()
    with shown:
        from testbed.report.html import write_html

        events = read_events(directory.events, without=STEPS)
        write_html(summary, events, directory.path / "report.html")


def read_again(directory: RunDirectory, *, show: bool) -> Summary:
    """Compute everything from the event log, write it, and print the last page if `show` is set.

    Raise UsageError, in one sentence, where the events are not in the format of a run: the record
    may be damaged, or written by another program.
    """
    with report_damage(directory):
        with waiting("computing the numbers", sys.stderr):
            summary = sum_up(directory)
        if show:
            page = last_page(summary, directory)
            print(page, end="", file=unfiltered(sys.stdout), flush=True)
        draw(directory, summary)
    return summary


_OF_VALUES = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
)
"""What code raises that meets a value which it was not written for."""

_JSON = (dict, list, tuple, str, int, float, type(None))
"""What a record holds; whatever else lacks an attribute is an object of ours."""


@contextmanager
def report_damage(*directories: RunDirectory) -> Iterator[None]:
    """Report errors that unexpected values cause in this block as a damaged record.

    Files of a run may hold any JSON. Errors of other types are bugs of this program and are passed
    on.
    """
    try:
        yield
    except (TestbedError, OSError):
        raise
    except _OF_VALUES as error:
        if isinstance(error, AttributeError) and not isinstance(error.obj, _JSON):
            raise
        names = " or ".join(str(directory.path) for directory in directories)
        raise UsageError(
            f"the record in {names} is not in the format that runs write: {_told(error)}",
            hint="if `run` wrote it, and it was not changed since, report this as a bug",
        ) from error


def _told(error: BaseException) -> str:
    """Return an exception and its place in our code, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}testbed{os.sep}" in frame.filename]
    where = f", in {Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
    return f"{type(error).__name__} {str(error)[:200]}{where}"


def _overrides(directory: RunDirectory) -> list[str]:
    """Return what `run.json` says was set with `-S`."""
    found = directory.read_json("run.json").get("overrides")
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise UsageError(
            f"{directory.path}/run.json does not list the overrides set with -S",
            hint="is it the directory of a run?",
        )
    return found


def _versions() -> dict[str, str]:
    libraries = {name: version(name) for name in _LIBRARIES}
    return {"testbed": __version__, "python": platform.python_version()} | libraries


def _git() -> dict[str, Any]:
    """Return which commit of this code ran, and whether it was changed; empty outside git."""
    root = Path(__file__).resolve().parent

    def ask(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        commit = ask("rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(ask("status", "--porcelain"))} if commit else {}
    except (OSError, subprocess.TimeoutExpired):
        return {}
