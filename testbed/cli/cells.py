"""`testbed doctor LAB --cells`: check the cells of photonic meshes; the check is recorded."""

from __future__ import annotations

import sys
from pathlib import Path

from testbed.cli.app import print_json
from testbed.cli.exit_on_signal import record_signals
from testbed.cli.lease_stores import leases_of
from testbed.cli.record import close_check, open_check
from testbed.errors import EXIT_FAILED, EXIT_PASSED, UnsafeError
from testbed.events import Event
from testbed.printable import unfiltered
from testbed.report.non_blocking_writer import NonBlockingWriter
from testbed.run.cell_check import run_cell_check
from testbed.run.inbox import Inbox
from testbed.run.run_leases import RunLeases
from testbed.schema import Lab
from testbed.units import counted

_MARKS = {"moves": "ok   ", "stuck": "STUCK", "unexplained": "FAIL "}


def check_cells(lab: Lab, results: Path, *, json: bool) -> int:
    """Find stuck cells of each photonic mesh, and print the finding for each."""
    directory, log, facts = open_check(lab, results, "cells")
    screen = NonBlockingWriter(unfiltered(sys.stderr))

    def say_what_was_missed(event: Event) -> None:
        if event.kind == "cells.look" and event.data["missing"]:
            pairs = ", ".join(f"{i}→{e}" for i, e in event.data["missing"])
            screen.write(f"{event.subject}: no light {pairs}\n")

    log.subscribe(say_what_was_missed)
    inbox = Inbox()
    run_leases = RunLeases(leases_of(lab), directory, "doctor --cells", log, inbox)
    try:
        with record_signals(inbox.interrupt):
            findings, left = run_cell_check(lab, directory, log, inbox, run_leases)
    finally:
        screen.flush(None)
    log.close()
    good = sum(finding.state == "moves" for finding in findings)
    reason = f"{good} of {counted(len(findings), 'mesh')} moved all cells that light could show"
    outcome = "passed" if good == len(findings) else "failed"
    rows = [finding.to_json() for finding in findings]
    close_check(directory, facts, outcome, reason, meshes=rows)
    if json:
        print_json(rows)
    else:
        for finding in findings:
            print(f"{_MARKS[finding.state]} {finding.switch}: {finding.text}")
        print(f"{reason}; the record is {directory.path}")
    if left:
        raise UnsafeError(
            f"the check of the cells left changes: {'; '.join(left)}",
            hint="check the circuits of the switch",
        )
    return EXIT_PASSED if good == len(findings) else EXIT_FAILED
