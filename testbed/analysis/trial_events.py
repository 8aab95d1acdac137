"""The events of one trial, as far as its numbers are computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from testbed.analysis.step_reports import StepReports
from testbed.analysis.steps import KINDS
from testbed.events import Event

UNREAD = ("clock.offset",)
"""Kinds of events that say nothing of a trial: what the hosts' clocks showed, `Clocks` knows."""

FREQUENT = ("step", *UNREAD)
"""Kinds of which a log has a million events, whose whole numbers have at most 64 bits."""

_TOGETHER = 128
"""Reports that are taken at once."""


class _Waiting:
    """Reports of one job that are handed over together, in the order of the log."""

    def __init__(self, reports: StepReports) -> None:
        self._reports = reports
        self._events: list[Event] = []

    def add(self, report: Event) -> None:
        """Take one more."""
        self._events.append(report)
        if len(self._events) == _TOGETHER:
            self.hand_over()

    def hand_over(self) -> None:
        """Give the table what waits."""
        self._reports.extend(self._events)
        self._events = []


class TrialEvents:
    """The events of one trial without the `UNREAD` ones; those of steps are kept in columns."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        """Take the events of one trial in the order of the log."""
        self.jobs: Sequence[str] = ()
        """The names of its jobs, where there are several."""
        self.samples: list[Event] = []
        """Of timed collectives, once more: each of them is a run of an algorithm."""
        self.others: list[Event] = []
        self._reports: dict[str, StepReports] = {}
        waiting: dict[str, _Waiting] = {}
        generations: list[Event] = []
        for event in events:
            if event.kind in KINDS:
                job = event.origin.job
                if job not in self._reports:
                    self._reports[job] = StepReports()
                    waiting[job] = _Waiting(self._reports[job])
                waiting[job].add(event)
                if event.kind == "sample":
                    self.samples.append(event)
                continue
            if event.kind not in UNREAD:
                self.others.append(event)
            if event.kind == "membership":
                generations.append(event)
            if event.kind == "trial.begin":
                self.jobs = event.data.get("jobs", ())
        for rest in waiting.values():
            rest.hand_over()
        for event in generations:
            reports = self._reports.get(event.subject) if self.jobs else self.reports
            if reports is not None:
                reports.add_generation(event)

    @property
    def reports(self) -> StepReports:
        """Return those of steps and of timed collectives, of a trial with one job."""
        return next(iter(self._reports.values()), StepReports())

    def of(self, job: str) -> TrialEvents:
        """Return the events of one of several jobs, with those that are of none."""
        part = TrialEvents()
        part._reports = {name: found for name, found in self._reports.items() if name == job}
        part.samples = [event for event in self.samples if event.origin.job == job]
        part.others = [event for event in self.others if event.origin.job in ("", job)]
        return part

    @property
    def is_begun(self) -> bool:
        """Return whether the trial began, as the log says."""
        return any(event.kind == "trial.begin" for event in self.others)
