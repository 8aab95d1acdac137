"""Delete the record of a run that was refused because its resources are leased to others."""

from __future__ import annotations

import shutil

from testbed.errors import EXIT_BUSY, BusyError, UnsafeError
from testbed.record.claim_registry import LOST
from testbed.record.journal import has_pending_undo
from testbed.record.log import read_events
from testbed.record.rundir import RunDirectory, point_latest


def delete_if_refused(run: RunDirectory) -> None:
    """Raise BusyError for a run whose lab is leased to others, and delete the run's record.

    A run that began a trial, lost its lease, or left an undo keeps its record.
    """
    end = None
    for event in read_events(run.events):
        if event.kind == "trial.begin":
            return
        end = event.data if event.kind == "run.end" else end
    if end is None or end["exit_code"] != EXIT_BUSY or end["signals"] or end["left"]:
        return
    try:
        if end["error"].startswith(LOST) or has_pending_undo(run.journal):
            return
    except UnsafeError:
        return
    shutil.rmtree(run.path, ignore_errors=True)
    point_latest(run.path.parent)
    raise BusyError(end["error"])
