"""Finish a run: compute its numbers, print its last page, draw its figures; handle signals."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from testbed.cli.app import print_json
from testbed.cli.exit_on_signal import exit_for_signal, explain_signal_exit, record_signals
from testbed.cli.record import draw, last_page, sum_up
from testbed.errors import EXIT_SIGNALLED, EXIT_UNSAFE, LabError, UsageError
from testbed.printable import unfiltered
from testbed.record.log import read_events
from testbed.record.rundir import RunDirectory
from testbed.report.non_blocking_writer import NonBlockingWriter
from testbed.report.waiting_message import waiting

if TYPE_CHECKING:
    from testbed.analysis.summary import Summary

_NUMBERS, _PAGE, _FIGURES = 2, 1, 1
"""How many signals each step tolerates, those during the run included."""


class PostRun:
    """Reports a run that has ended; `signals` are those received so far.

    A second signal skips the figures, which `testbed report` can draw later; a third skips the
    numbers too.
    """

    def __init__(self, directory: RunDirectory, signals: list[int]) -> None:
        self._directory = directory
        self._signals = signals
        self._under_way = ""
        self._until = 0

    def report(self, *, json: bool, is_drawn: bool = True) -> int:
        """Compute the numbers, print the last page and draw the figures; return the exit code.

        Without `is_drawn` there are no figures; the next command on the page then draws them.
        """
        with record_signals(self._note):
            self._begin("computing the numbers", _NUMBERS)
            with explain_signal_exit(self._without_numbers), waiting(self._under_way, sys.stderr):
                summary = self._sum_up()
                is_drawn &= len(self._signals) <= _FIGURES
                page = "" if json else last_page(summary, self._directory, will_be_drawn=is_drawn)
            self._begin("handing over the last page", _PAGE)
            if json:
                print_json(summary.to_json())
            print(page, end="", file=unfiltered(sys.stdout), flush=True)
            if is_drawn:
                self._begin("drawing report.html", _FIGURES)
                with explain_signal_exit(self._without_figures):
                    draw(self._directory, summary)
        if self._signals and summary.exit_code != EXIT_UNSAFE:
            return EXIT_SIGNALLED + self._signals[0]
        return summary.exit_code

    def _sum_up(self) -> Summary:
        try:
            return sum_up(self._directory)
        except UsageError as error:  # it was intact when the run began
            what = f"the record was lost during the run: {error.args[0]}"
            raise LabError(what) from error

    def _begin(self, what: str, most: int) -> None:
        self._under_way, self._until = what, max(len(self._signals), most)

    def _note(self, number: int) -> None:
        """Take a signal: go on with what is under way, and say so, or exit."""
        self._signals.append(number)
        if len(self._signals) > self._until:
            exit_for_signal(self._signals[0], EXIT_UNSAFE if self._cleanup()[0] == "failed" else 0)
        with suppress(RuntimeError):  # the signal interrupted a write to this stream
            NonBlockingWriter(sys.stderr).write(
                f"\nstopping: {self._under_way}; another signal leaves at once\n"
            )

    def _without_figures(self) -> list[str]:
        command = shlex.join(["testbed", "report", str(self._directory.path)])
        return [f"report.html was not drawn; type: {command}"]

    def _without_numbers(self) -> list[str]:
        from testbed.report.last_page import last_lines

        reason = "its numbers were not computed"
        return last_lines(self._directory.path, reason, *self._cleanup())

    def _cleanup(self) -> tuple[str, list[str]]:
        """Return the result of the clean-up, and what is still changed."""
        ends = [e.data for e in read_events(self._directory.events) if e.kind == "run.end"]
        return (ends[-1]["cleanup"], ends[-1]["left"]) if ends else ("unknown", [])
