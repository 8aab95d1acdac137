"""`testbed doctor LAB --wiring`: check the fibres of a lab; the check is recorded like a run."""

from __future__ import annotations

import sys
from pathlib import Path

from testbed.cli.app import print_json
from testbed.cli.exit_on_signal import record_signals
from testbed.cli.lease_stores import leases_of
from testbed.cli.record import close_check, open_check
from testbed.clock import now
from testbed.errors import EXIT_FAILED, EXIT_PASSED, UnsafeError, UsageError
from testbed.events import Event
from testbed.fabric.fibre_search import PortFinding
from testbed.printable import printable, unfiltered
from testbed.report.non_blocking_writer import NonBlockingWriter
from testbed.run.inbox import Inbox
from testbed.run.run_leases import RunLeases
from testbed.run.wiring_check import run_wiring_check
from testbed.schema import Lab

_CLEAR = "\x1b[K"
"""Clears the rest of a terminal's line."""
_SILENCE = 10.0
"""Seconds without a finding after which a line says what is tried, where no terminal shows it."""
_MARKS = {"found": "ok  ", "lossy": "LOSS", "swapped": "SWAP", "dark": "DARK"}


def check_wiring(lab: Lab, results: Path, *, json: bool) -> int:
    """Light one circuit after the other and print the findings for every port's fibres."""
    if not lab.wiring():
        raise UsageError(f"no port of lab {lab.lab} has a fibre, so there is no wiring to check")
    if lab.fibres:
        raise UsageError(
            f"circuits of lab {lab.lab} pass several switches, and --wiring lights those of one",
            hint="a run asks both ends of each of its circuits which ports they are",
        )
    directory, log, facts = open_check(lab, results, "wiring")
    screen = _Screen(is_terminal=sys.stderr.isatty())
    if not json:
        log.subscribe(screen.say_what_is_lit)
    inbox = Inbox()
    run_leases = RunLeases(leases_of(lab), directory, "doctor --wiring", log, inbox)
    tell = screen.show if not json else lambda finding: None  # all comes at the end, as JSON
    try:
        with record_signals(inbox.interrupt):
            findings, left = run_wiring_check(lab, directory, log, inbox, run_leases, tell)
    finally:
        screen.catch_up()
    log.close()
    bad = [finding for finding in findings if finding.state != "found"]
    reason = f"{len(findings) - len(bad)} of {len(findings)} ports are wired as the lab file says"
    outcome = "failed" if bad else "passed"
    rows = [finding.to_json() for finding in findings]
    close_check(directory, facts, outcome, reason, ports=rows)
    if json:
        print_json(rows)
    else:
        print(f"{reason}; the record is {directory.path}")
    if left:
        raise UnsafeError(
            f"the wiring check left changes: {'; '.join(left)}",
            hint="check the circuits of the switch",
        )
    return EXIT_FAILED if bad else EXIT_PASSED


class _Screen:
    """Progress while circuits are lit, written without waiting for its reader."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._found = NonBlockingWriter(sys.stdout, most=None)
        self._lit = NonBlockingWriter(unfiltered(sys.stderr))
        self._is_terminal = is_terminal
        self._written = now()

    def say_what_is_lit(self, event: Event) -> None:
        """Show which circuit is being tried; on a terminal in a line that the next overwrites.

        Elsewhere, print a line only after `_SILENCE` seconds without output.
        """
        if event.kind != "fabric.change" or not event.data["circuits"]:
            return
        text = f"trying {printable(event.data['circuits'][0])}"
        if self._is_terminal:
            self._lit.write(f"\r{_CLEAR}{text}")
        elif now() - self._written > _SILENCE:
            self._lit.write(f"{text}\n")
            self._written = now()

    def show(self, finding: PortFinding) -> None:
        """Print the finding for one port's fibres."""
        self._written = now()
        if self._is_terminal:
            self._lit.write(f"\r{_CLEAR}")
        self._found.write(f"{_MARKS[finding.state]} {finding.port}: {finding.text}\n")

    def catch_up(self) -> None:
        """Wait until all findings are written; called when no circuit is lit any more."""
        self._found.flush(None)
