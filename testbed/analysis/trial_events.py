"""The events of one trial, as far as its numbers are computed from them."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.analysis.step_reports import StepReports
from testbed.analysis.steps import KINDS
from testbed.events import Event


class TrialEvents:
    """The events of one trial, of which those of steps are kept in columns.

    What the hosts' clocks showed is left out: `Clocks` knows it.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        """Take the events of one trial in the order of the log."""
        self.reports = StepReports()
        """Of steps and of timed collectives."""
        self.samples: list[Event] = []
        """Of timed collectives, once more: each of them is a run of an algorithm."""
        self.others: list[Event] = []
        for event in events:
            if event.kind in KINDS:
                self.reports.add(event)
            elif event.kind != "clock.offset":
                self.others.append(event)
            if event.kind == "membership":
                self.reports.add_generation(event)
            if event.kind == "sample":
                self.samples.append(event)

    @property
    def is_begun(self) -> bool:
        """Return whether the trial began, as the log says."""
        return any(event.kind == "trial.begin" for event in self.others)
