"""The command `clean`: delete old runs that are not needed any more."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
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
    """Delete old runs; never one under way, or with an open undo."""
    found = list(runs(results))
    verdicts = [_Verdict(run, _needed(run)) for run in found[: max(0, len(found) - keep)]]
    if not dry_run:
        verdicts = [_deleted(one) for one in verdicts]
        point_latest(results)
    if json:
        print_json([{"run": one.run.id, "kept": one.kept or None} for one in verdicts])
    else:
        for one in verdicts:
            print(one.line(dry_run=dry_run))
        gone = sum(not one.kept for one in verdicts)
        word = "would go" if dry_run else "deleted"
        print(f"{gone} of {len(found)} runs in {results.absolute()} {word}", file=sys.stderr)
    return EXIT_LAB if any(one.failed for one in verdicts) else EXIT_PASSED


@dataclass(frozen=True, slots=True)
class _Verdict:
    """An old run, and the reason to keep it; empty when it is deleted."""

    run: RunDirectory
    kept: str
    failed: bool = False

    def line(self, *, dry_run: bool) -> str:
        """Return its line of output."""
        if self.kept:
            return f"keep    {self.run.path}: {self.kept}"
        return f"{'would delete' if dry_run else 'deleted'} {self.run.path}"


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
        return f"nobody knows what it left changed: {error}"
    return ""


def _deleted(one: _Verdict) -> _Verdict:
    if one.kept:
        return one
    try:
        shutil.rmtree(one.run.path)
    except OSError as error:
        return _Verdict(one.run, f"deleting it failed: {error.strerror}", failed=True)
    return one


def _seconds_since(run: RunDirectory) -> float:
    """Return the seconds since a run last wrote an event, or was begun."""
    last = run.events if run.events.exists() else run.path
    return time.time() - last.stat().st_mtime
