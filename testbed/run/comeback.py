"""Waits until the job of a trial has come back from its fault: repaired, or because it never went.

Each wait returns why the job cannot go on, or an empty string.
"""

from __future__ import annotations

from testbed.analysis.fault_effect import Response
from testbed.clock import Deadline, now
from testbed.run.aftermath import Aftermath
from testbed.run.far_end_plan import breaks
from testbed.run.inbox import Inbox
from testbed.run.job import RunningJob
from testbed.run.pace import Pace
from testbed.run.plan import FaultPlan
from testbed.run.recovery import Recovery

_PATIENCE = 100
"""Steps after a recovery within which throughput comes back, or counts as lost for good."""

_BITE = 1.0
"""Seconds that a fault which stays is given to show: an attenuator moves slowly."""


class Comeback:
    """The job of one trial after its fault."""

    def __init__(
        self, job: RunningJob, recovery: Recovery | None, pace: Pace, inbox: Inbox
    ) -> None:
        self._job = job
        self._recovery = recovery
        self._pace = pace
        self._inbox = inbox
        self.response: Response | None = None
        """What the job did, once that was waited for."""

    @property
    def broken(self) -> str:
        """Return why the job cannot go on, or an empty string."""
        of_programs = self._job.programs.failure if self._job.programs else ""
        of_recovery = self._recovery.failure if self._recovery else ""
        return of_recovery or of_programs or self._job.failure

    def wait(self, plan: FaultPlan, aftermath: Aftermath, limit: float, deadline: Deadline) -> str:
        """Wait until the policy has repaired the job, or it has shown that it goes on without."""
        shows_at = now() + (_BITE if plan.hold is None else 0.0)

        def settled() -> bool:
            is_over = self._is_repaired or (now() >= shows_at and self._has_responded(aftermath))
            return is_over or self._job.has_ended or bool(self.broken)

        if not self._inbox.wait(settled, deadline):
            return f"not recovered within {limit:g} s"
        if not self._has_responded(aftermath) and breaks(plan.kind):
            return self.broken or "the job ended before it made a step after the fault"
        self.response = "recovered" if self._is_repaired else aftermath.response
        return self.broken

    @property
    def _is_repaired(self) -> bool:
        return self._recovery is not None and self._recovery.is_over

    def _has_responded(self, aftermath: Aftermath) -> bool:
        """Tell whether the job came back or never went; no repair may be under way."""
        if self._recovery and (self._recovery.happened or self._recovery.is_under_way):
            return self._recovery.is_over
        return aftermath.response != "not recovered"

    def wait_for_throughput(self, step_time: float, deadline: Deadline) -> str:
        """Wait until the job is as fast as before; the record says when it is not after long."""
        generation = self._job.generation
        begun = self._pace.steps(generation)

        def settled() -> bool:
            is_late = self._pace.steps(generation) - begun >= _PATIENCE
            is_back = self._pace.is_back(generation, step_time)
            return is_back or is_late or self._job.has_ended or bool(self.broken)

        self._inbox.wait(settled, deadline)
        return self.broken

    def wait_for_calm(self, deadline: Deadline) -> str:
        """Leave no recovery half done: the next trial's policy would know nothing of it."""
        recovery = self._recovery
        if recovery is None:
            return ""

        def calm() -> bool:
            return bool(self.broken) or self._job.has_ended or not recovery.is_under_way

        if not self._inbox.wait(calm, deadline):
            return "a recovery that began after the fault's own did not come to its end"
        return self.broken
