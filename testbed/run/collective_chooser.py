"""Choose the AllReduce of a running job whose options leave the choice to the testbed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from testbed.analysis.clocks import Clocks, Instant
from testbed.analysis.step_reports import finished_steps
from testbed.analysis.steps import step_time
from testbed.collectives.cost import Links
from testbed.collectives.schedule import Schedule
from testbed.control.collective_choice import WINDOW, Choice, choose
from testbed.events import Event
from testbed.events.origin import Origin, attributed
from testbed.record.log import EventLog

Reports = Mapping[int, Event]
"""By rank, its report of one step."""


@dataclass(slots=True)
class CollectiveChooser:
    """Observes the steps of a job; sends its ranks another AllReduce schedule if it is faster.

    Its gradients have `size` bytes. `tell` sends choices, numbered from 1 on, to all ranks, which
    use a choice once all have received it. Only steps after the last change count.
    """

    schedule: Schedule
    size: int
    links: Links
    clocks: Clocks
    log: EventLog
    tell: Callable[[int, Schedule], None]
    _number: int = 0
    _recorded: str = ""
    _open: dict[int, dict[int, Event]] = field(default_factory=dict)
    _window: deque[Reports] = field(default_factory=lambda: deque(maxlen=WINDOW))

    def add_step(self, step: Event) -> None:
        """Add one rank's report of one step; after the last rank's, choose again."""
        data = step.data
        if data["choice"] != self._number:
            return  # begun before the last change
        reports = self._open.setdefault(data["step"], {})
        reports[data["rank"]] = step
        if len(reports) == self.schedule.ranks:
            self._window.append(self._open.pop(data["step"]))
            arrivals = [found for reports in self._window if (found := self._arrivals(reports))]
            if len(arrivals) == WINDOW:
                with attributed(Origin(cause=step.seq)):
                    self._decide(choose(arrivals, self.schedule, self.size, self.links))

    def _arrivals(self, reports: Reports) -> dict[int, Instant] | None:
        """Return when each rank entered the collective; None where a clock was not measured."""
        found = {
            rank: self.clocks.instant(report, report.data["collective"][0])
            for rank, report in reports.items()
        }
        known = {rank: at for rank, at in found.items() if at is not None}
        return known if len(known) == len(found) else None

    def _decide(self, choice: Choice) -> None:
        """Record a new choice, and send it to the ranks where the schedule changes."""
        changes = choice.schedule is not self.schedule
        straggler = choice.straggler and choice.straggler.rank
        what = f"{choice.schedule.name} {straggler}"
        if what == self._recorded:
            return
        self._recorded = what
        chosen = self.log.append(
            "collective.chosen",
            choice.schedule.name,
            choice=self._number + changes,
            because=choice.because,
            straggler=straggler,
            expected=choice.expected,
            present=choice.present,
        )
        if changes:
            self._predict(choice, Origin(cause=chosen.seq))  # before anything changes
            self._number += 1
            self.schedule = choice.schedule
            self._window.clear()
            self._open.clear()
            self.tell(self._number, choice.schedule)

    def _predict(self, choice: Choice, origin: Origin) -> None:
        events = [report for reports in self._window for report in reports.values()]
        before = step_time(finished_steps(events, self.clocks, self.schedule.ranks))
        if before:
            links = {"alpha": self.links.alpha, "beta": self.links.beta}
            values = choice.predict(before)
            with attributed(origin):
                self.log.append("prediction", choice.schedule.name, values=values, **links)
