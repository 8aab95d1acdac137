"""The faults of jobs in one trial: each injected at its time, confirmed, and undone."""

from __future__ import annotations

from collections.abc import Callable

from testbed.analysis.clocks import Clocks
from testbed.clock import Deadline, now
from testbed.events import Event
from testbed.events.origin import Origin
from testbed.run.context import RunContext
from testbed.run.fault_injection import FaultInjection, find_victim, made_fault
from testbed.run.inbox import Report
from testbed.run.planning.arm_plans import plain_options
from testbed.run.planning.steps import FaultPlan
from testbed.run.response_tracker import ResponseTracker
from testbed.run.running_job import RunningJob
from testbed.schema import Experiment

_FAULT_LIMIT = 10.0


class JobFaults:
    """The faults of one trial; those that are held are taken back when their time is over."""

    def __init__(self, experiment: Experiment, context: RunContext) -> None:
        self._experiment, self._context = experiment, context
        self._inbox = context.inbox
        self._injections: list[FaultInjection] = []
        self._open: dict[FaultInjection, float | None] = {}
        """Those that are not taken back yet, each with the time at which that is due, if any."""
        self._latest = 0.0
        """When the fault that was injected last had been injected."""

    def inject(
        self,
        plan: FaultPlan,
        job: RunningJob,
        responses: ResponseTracker,
        deadline: Deadline,
        at_once: Callable[[], None],
    ) -> str:
        """Inject a fault of a job; return why that cannot be done, or an empty string.

        `at_once` is called before it fires, when its undo is in the journal.
        """
        victim = find_victim(plan, job, self._context)
        if victim is None:
            host = plan.port.partition(".")[0]
            return f"the job has moved away from {host}, whose port was to be hit"
        fault, origin = made_fault(self._experiment, plan.entry), Origin(job.name)
        options = plain_options(self._experiment.faults[plan.entry])
        injection = FaultInjection(
            plan, fault, victim, self._context, responses, options, origin=origin
        )
        # From here on, and no earlier: what is noticed and repaired counts as its doing.
        self._injections.append(injection)
        at_once()
        injection.inject(deadline.within(_FAULT_LIMIT))
        self._latest = now()
        self._open[injection] = None if plan.hold is None else self._latest + plan.hold
        return ""

    def pause_after_latest(self, seconds: float, deadline: Deadline) -> None:
        """Wait until so long after the latest injection; what is held no longer is taken back."""
        until = self._latest + seconds
        for injection, due in self._held():
            if due <= until:
                self._pause_until(due, deadline)
                self._take_back(injection)
        self._pause_until(until, deadline)

    def end_holds(self, deadline: Deadline) -> None:
        """Take back all that is held, each when its time is over."""
        for injection, due in self._held():
            self._pause_until(due, deadline)
            self._take_back(injection)

    def confirm_and_undo(self) -> None:
        """Wait briefly for the receipts that are missing, and take back the rest, last first."""
        for injection in self._injections:
            injection.await_receipt(lasts=injection in self._open)
        for injection in reversed(tuple(self._open)):
            self._take_back(injection)

    def look_for_receipts(
        self, job: str, report: Report, event: Event | None, clocks: Clocks
    ) -> None:
        """Check whether an agent's report about a job confirms a fault of it."""
        for injection in self._injections:
            if injection.origin.job == job:
                injection.look_for_receipt(report, event, clocks)

    def have_struck(self, planned: int) -> bool:
        """Tell whether so many faults were injected, and each was seen by another observer."""
        return len(self._injections) == planned and all(one.receipt for one in self._injections)

    def _held(self) -> list[tuple[FaultInjection, float]]:
        held = [(one, due) for one, due in self._open.items() if due is not None]
        return sorted(held, key=lambda pair: pair[1])

    def _pause_until(self, at: float, deadline: Deadline) -> None:
        self._inbox.pause(deadline.within(max(0.0, at - now())))

    def _take_back(self, injection: FaultInjection) -> None:
        del self._open[injection]
        injection.take_back()
