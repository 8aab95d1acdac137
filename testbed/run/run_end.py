"""Write the last event of a run to its log."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from testbed.errors import EXIT_BUG, TestbedError
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory


def append_run_end(
    log: EventLog,
    run: RunDirectory,
    problem: Exception | None,
    left: Sequence[str],
    signals: Sequence[int],
    besides: str = "",
) -> None:
    """Log the error that stopped a run, if any, and the changes that are `left` to undo.

    `besides` is appended to an error of the lab; the traceback of a bug is written to a separate
    file.
    """
    error, code, is_bug = "", 0, False
    if isinstance(problem, TestbedError):
        error, code = f"{problem}{besides}", problem.exit_code
    elif problem:
        error, code, is_bug = f"{type(problem).__name__}: {problem}", EXIT_BUG, True
    log.append(
        "run.end",
        error=error,
        exit_code=code,
        cleanup="failed" if left else "verified",
        left=left,
        signals=list(signals),
    )
    if is_bug:
        run.write_text("traceback.txt", "".join(traceback.format_exception(problem)))
