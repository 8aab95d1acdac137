"""Write the trace of a run as a file for chrome://tracing or https://ui.perfetto.dev."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from testbed.cli.record import report_damage
from testbed.errors import LabError, UsageError
from testbed.events import Event
from testbed.files import replace_file
from testbed.record.log import read_events
from testbed.record.rundir import RunDirectory

if TYPE_CHECKING:
    from testbed.analysis.trace import Trace

_LACKS = {
    "circuits": "changes of circuits",
    "faults": "faults",
    "controllers": "decisions of controllers",
}


def write_trace(run: RunDirectory, path: Path, trial: int | None = None) -> None:
    """Write what the ranks and circuits of a run did, or of one of its trials, atomically.

    The log is read twice, and never held: first for the clocks of the hosts, then for the rows.
    Raise UsageError for a log without steps of ranks; what else it does not have is printed.
    """
    from testbed.analysis.trace import BEFOREHAND, KINDS, Trace, background
    from testbed.analysis.trial_events import FREQUENT
    from testbed.events.kinds import KINDS as EVERY

    def read(*kinds: str) -> Iterator[Event]:
        return read_events(run.events, without=EVERY.keys() - kinds, frequent=FREQUENT)

    with report_damage(run):
        trace = Trace(background(read(*BEFOREHAND)), trial)
        try:
            replace_file(path, _written(run, trace, read(*KINDS), trial))
        except OSError as error:
            raise LabError(f"writing {path} failed: {error.strerror or error}") from error
    if trace.unmeasured:
        hosts = ", ".join(sorted(trace.unmeasured))
        print(f"left out, as their clocks were not measured: ranks on {hosts}", file=sys.stderr)
    lacks = [text for name, text in _LACKS.items() if name not in trace.seen]
    if lacks:
        print(f"not in the trace, as the log has none: {', '.join(lacks)}", file=sys.stderr)


def _written(
    run: RunDirectory, trace: Trace, events: Iterator[Event], trial: int | None
) -> Iterator[bytes]:
    """Yield the parts of the file; raise UsageError at its end if it shows no rank."""
    about = orjson.dumps({"run": run.id, "trial": trial}).decode()
    yield f'{{"displayTimeUnit":"ms","otherData":{about},"traceEvents":[\n'.encode()
    rows = map(orjson.dumps, trace.rows(events))
    yield next(rows, b"")
    yield from chain.from_iterable((b",\n", row) for row in rows)
    yield b"\n]}\n"
    if "ranks" not in trace.seen:
        which = run.id if trial is None else f"trial {trial} of {run.id}"
        why = "has no steps, samples or operations of ranks"
        if trace.unmeasured:
            why = f"has no measured clock of {', '.join(sorted(trace.unmeasured))}"
        raise UsageError(
            f"{which} gives no trace: its log {why}",
            hint="run a job of ranks, such as `train`, `allreduce` or `hybrid`",
        )
