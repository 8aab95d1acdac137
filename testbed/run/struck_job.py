"""A job in a trial that its faults strike, or the first job of a trial without faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from testbed.analysis.clocks import Clocks
from testbed.analysis.steps import KINDS
from testbed.clock import Deadline
from testbed.control.controller import MembershipChanged
from testbed.run.controllers import ControllerExecutor
from testbed.run.inbox import Inbox
from testbed.run.planning.steps import FaultPlan
from testbed.run.recovery_wait import RecoveryWait
from testbed.run.response_tracker import ResponseTracker
from testbed.run.running_job import RunningJob
from testbed.run.step_pace import StepPace


class StruckJob:
    """The faults of a trial that strike one job, the pace of its steps, and how it responds.

    `failure` is why it cannot go on; its waits set it.
    """

    def __init__(
        self,
        job: RunningJob,
        plans: Sequence[FaultPlan],
        controllers: ControllerExecutor,
        inbox: Inbox,
        limit: float,
    ) -> None:
        """Note where the job is now."""
        self.job, self.plans = job, plans
        self.pace = StepPace(len(job.hosts))
        # A job with an end was started for this trial, and may have made steps since.
        self.begun = job.completed if job.job.endless else 0
        self.responses = ResponseTracker(len(job.hosts), Clocks(()))
        self.wait = RecoveryWait(job, controllers, self.pace, inbox, limit)
        self.step_time: float | None = None
        """Of its median step before its first fault, in seconds."""
        self.failure = ""

    def handle(self, item: Any) -> None:
        """Follow what a controller has made of its membership."""
        if isinstance(item, MembershipChanged) and item.job == self.job.name:
            for follower in (self.pace, self.responses):
                follower.expect(item.view.generation, len(item.view.hosts))

    def add_step(self, rank: int | None, said: Any, received: float) -> None:
        """Follow the steps of its ranks."""
        if rank is not None and said.get("event") in KINDS:
            self.pace.add_step(rank, said, received)

    def wait_for_step(self, step: int, deadline: Deadline) -> None:
        """Wait until a step of the trial is under way."""
        self.failure = self.wait.wait_for_step(self.begun + step, deadline)
        if self.step_time is None:
            self.step_time = self.pace.step_time(self.job.generation)

    def wait_for_recovery(self, deadline: Deadline) -> None:
        """Wait until it has recovered from its faults, and is as fast as before."""
        if not self.failure:
            self.failure = self.wait.wait(self.plans, self.responses, deadline)
        if not self.failure and self.wait.response == "recovered":
            self.failure = self.wait.wait_for_throughput(self.step_time or 0.0, deadline)

    def wait_for_end(self, deadline: Deadline) -> None:
        """Wait until it has ended, where it has a last step."""
        if not self.failure and not self.job.job.endless:
            self.failure = self.wait.wait_for_end(deadline)

    def wait_for_repair(self, deadline: Deadline) -> None:
        """Wait for a recovery that is under way."""
        if not self.failure:
            self.failure = self.wait.wait_for_repair(deadline)
