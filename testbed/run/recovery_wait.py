"""Wait until the job of a trial has recovered from its fault, or has shown that it rides it out.

Each wait returns why the job cannot go on, or an empty string.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.analysis.fault_effect import Response
from testbed.clock import Deadline, now
from testbed.run.inbox import Inbox
from testbed.run.planning.fault_plans import breaks
from testbed.run.planning.steps import FaultPlan
from testbed.run.policy_executor import PolicyExecutor
from testbed.run.response_tracker import ResponseTracker
from testbed.run.running_job import RunningJob
from testbed.run.step_pace import StepPace

_PATIENCE = 100
"""Steps after a recovery within which throughput comes back, or counts as lost for good."""

_EFFECT_LIMIT = 1.0
"""Seconds within which a lasting fault shows its effect: an attenuator moves slowly."""


@dataclass(slots=True)
class RecoveryWait:
    """The job of one trial after its fault."""

    job: RunningJob
    executor: PolicyExecutor | None
    pace: StepPace
    inbox: Inbox
    response: Response | None = None
    """What the job did, once that was waited for."""

    @property
    def broken(self) -> str:
        """Return why the job cannot go on, or an empty string."""
        of_programs = self.job.programs.failure if self.job.programs else ""
        of_policy = self.executor.failure if self.executor else ""
        return of_policy or of_programs or self.job.failure

    def wait(
        self, plan: FaultPlan, responses: ResponseTracker, limit: float, deadline: Deadline
    ) -> str:
        """Wait until the policy has repaired the job, or it has shown that it goes on without."""
        shows_at = now() + (_EFFECT_LIMIT if plan.hold is None else 0.0)

        def settled() -> bool:
            is_over = self._is_repaired or (now() >= shows_at and self._has_responded(responses))
            return is_over or self.job.has_ended or bool(self.broken)

        if not self.inbox.wait(settled, deadline):
            return f"not recovered within {limit:g} s"
        if not self._has_responded(responses) and breaks(plan.kind):
            return self.broken or "the job ended before it made a step after the fault"
        self.response = "recovered" if self._is_repaired else responses.response
        return self.broken

    @property
    def _is_repaired(self) -> bool:
        return self.executor is not None and self.executor.is_over

    def _has_responded(self, responses: ResponseTracker) -> bool:
        """Tell whether the job came back or never went; no repair may be under way."""
        if self.executor and (self.executor.happened or self.executor.is_under_way):
            return self.executor.is_over
        return responses.response != "not recovered"

    def wait_for_throughput(self, step_time: float, deadline: Deadline) -> str:
        """Wait until the job is as fast as before; the record says when it is not after long."""
        generation = self.job.generation
        begun = self.pace.steps(generation)

        def settled() -> bool:
            is_late = self.pace.steps(generation) - begun >= _PATIENCE
            is_back = self.pace.is_back(generation, step_time)
            return is_back or is_late or self.job.has_ended or bool(self.broken)

        self.inbox.wait(settled, deadline)
        return self.broken

    def wait_for_calm(self, deadline: Deadline) -> str:
        """Leave no recovery half done: the next trial's policy would know nothing of it."""
        executor = self.executor
        if executor is None:
            return ""

        def calm() -> bool:
            return bool(self.broken) or self.job.has_ended or not executor.is_under_way

        if not self.inbox.wait(calm, deadline):
            return "a recovery that began after the fault's own did not come to its end"
        return self.broken
