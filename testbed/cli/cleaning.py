"""The command `clean`: delete old runs."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from testbed.cli.app import RESULTS, JsonOption, RecordsOption, app, print_json
from testbed.commands import typed
from testbed.errors import EXIT_LAB, EXIT_PASSED, UnsafeError
from testbed.record.journal import has_pending_undo, is_held
from testbed.record.rundir import RunDirectory, point_latest, runs

_QUIET = 3600.0
"""Seconds after its last event in which a run without a summary is taken for one that goes on."""


@app.command(epilog="Examples: testbed clean --keep 20 --dry-run; testbed clean --keep 20")
def clean(
    keep: Annotated[int, typer.Option(min=0, help="How many of the newest runs stay.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go; delete nothing.")
    ] = False,
    results: RecordsOption = RESULTS,
    json: JsonOption = False,
) -> int:
    """Delete old runs, except those that still run or have an open undo."""
    found = list(runs(results))
    old = {run: _needed(run) for run in found[: max(0, len(found) - keep)]}
    failed = {}
    if not dry_run:
        failed = _delete(run for run, reason in old.items() if not reason)
        point_latest(results)
    old |= failed
    if json:
        print_json([{"run": run.id, "kept": reason or None} for run, reason in old.items()])
    else:
        _print(old, dry_run=dry_run)
        gone = sum(not reason for reason in old.values())
        word = "would go" if dry_run else "deleted"
        print(f"{gone} of {len(found)} runs in {results.absolute()} {word}", file=sys.stderr)
    return EXIT_LAB if failed else EXIT_PASSED


def _print(old: Mapping[RunDirectory, str], *, dry_run: bool) -> None:
    """Print each old run with the reason to keep it, or that it is deleted."""
    for run, reason in old.items():
        deleted = "would delete" if dry_run else "deleted"
        print(f"keep    {run.path}: {reason}" if reason else f"{deleted} {run.path}")


def _needed(run: RunDirectory) -> str:
    """Return the reason to keep a run; empty for none."""
    if why := run.foreign():
        return why
    try:
        if run.journal.exists() and is_held(run.journal):
            return "it goes on, or is being recovered"
        if has_pending_undo(run.journal):
            return f"it left something changed; type: {typed('recover', str(run.path))}"
        if not run.summary.exists() and _seconds_since(run) < _QUIET:
            return "it has no summary yet, and wrote something within the last hour"
    except (OSError, UnsafeError) as error:
        return f"it is not known what it left changed: {error}"
    return ""


def _delete(old: Iterable[RunDirectory]) -> dict[RunDirectory, str]:
    """Delete runs; return why some could not be."""
    failed = {}
    for run in old:
        try:
            shutil.rmtree(run.path)
        except OSError as error:
            failed[run] = f"deleting it failed: {error.strerror}"
    return failed


def _seconds_since(run: RunDirectory) -> float:
    """Return the seconds since a run last wrote an event, or was begun."""
    last = run.events if run.events.exists() else run.path
    return time.time() - last.stat().st_mtime
