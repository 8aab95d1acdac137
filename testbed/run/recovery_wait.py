"""The waits of a trial: for a step, for the recovery from its fault, for the end of its job.

Each returns why the job cannot go on, or an empty string.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from testbed.analysis.fault_effect import Response
from testbed.clock import Deadline, now
from testbed.run.controllers import ControllerExecutor, JobRecoveries
from testbed.run.inbox import Inbox
from testbed.run.planning.fault_plans import breaks
from testbed.run.planning.steps import FaultPlan
from testbed.run.response_tracker import ResponseTracker
from testbed.run.running_job import RunningJob
from testbed.run.step_pace import StepPace

_PATIENCE = 100
"""Steps after a recovery within which throughput comes back, or counts as lost for good."""

_EFFECT_LIMIT = 1.0
"""Seconds within which a lasting fault shows its effect: an attenuator moves slowly."""


@dataclass(slots=True)
class RecoveryWait:
    """Waits for events of the job of one trial, which may take `limit` seconds."""

    job: RunningJob
    controllers: ControllerExecutor
    pace: StepPace
    inbox: Inbox
    limit: float
    response: Response | None = None
    """What the job did, once that was waited for."""

    @property
    def _recoveries(self) -> JobRecoveries:
        return self.controllers.of(self.job.name)

    @property
    def broken(self) -> str:
        """Return why the job cannot go on, or an empty string."""
        of_programs = self.job.programs.failure if self.job.programs else ""
        failure = self.controllers.failure_of(self.job.name)  # asked after each report
        return failure or of_programs or self.job.failure

    def _wait(self, until: Callable[[], bool], deadline: Deadline) -> bool:
        """Wait until a condition holds, or the job has ended or cannot go on; tell whether so."""

        def settled() -> bool:
            return until() or self.job.has_ended or bool(self.broken)

        return self.inbox.wait(settled, deadline)

    def wait_for_step(self, step: int, deadline: Deadline) -> str:
        """Wait until every rank has committed `step` steps."""
        is_there = self.job.has_completed(step)
        if not self._wait(is_there, deadline):
            return f"the job did not reach step {step} within the trial's {self.limit:g} s"
        return self.broken or ("" if is_there() else f"the job ended before step {step}")

    def wait_for_end(self, deadline: Deadline) -> str:
        """Wait until the job has ended."""
        if not self._wait(lambda: False, deadline):
            return f"the job did not end within {self.limit:g} s"
        return self.broken

    def wait(
        self, plans: Sequence[FaultPlan], responses: ResponseTracker, deadline: Deadline
    ) -> str:
        """Wait until a policy has repaired the job, or the job has continued without a repair.

        Of several faults a repair that ended may have been of the first: then the job must also
        have finished a step that began after the last one.
        """
        lasts = any(plan.hold is None for plan in plans)
        shows_at = now() + (_EFFECT_LIMIT if lasts else 0.0)

        def is_over() -> bool:
            if self._recoveries.is_over:
                return len(plans) == 1 or responses.response == "recovered"
            return now() >= shows_at and self._has_responded(responses)

        if not self._wait(is_over, deadline):
            return f"not recovered within {self.limit:g} s"
        if not self._has_responded(responses) and any(breaks(plan.kind) for plan in plans):
            return self.broken or "the job ended before it made a step after the fault"
        self.response = "recovered" if self._recoveries.is_over else responses.response
        return self.broken

    def _has_responded(self, responses: ResponseTracker) -> bool:
        """Tell whether the job came back or never went; no repair may be under way."""
        if self._recoveries.happened or self._recoveries.is_under_way:
            return self._recoveries.is_over
        return responses.response != "not recovered"

    def wait_for_throughput(self, step_time: float, deadline: Deadline) -> str:
        """Wait until the job is as fast as before the fault; log if it is not after a long time."""
        generation = self.job.generation
        begun = self.pace.steps(generation)

        def is_over() -> bool:
            is_late = self.pace.steps(generation) - begun >= _PATIENCE
            return is_late or self.pace.is_back(generation, step_time)

        self._wait(is_over, deadline)
        return self.broken

    def wait_for_repair(self, deadline: Deadline) -> str:
        """Wait for a recovery in progress, since the next trial's policy cannot continue it."""
        if not self.controllers.recovers:
            return self._recoveries.failure
        if not self._wait(lambda: not self.controllers.is_under_way, deadline):
            return "a recovery that began after the fault's own did not come to its end"
        return self.broken
