"""The jobs of a trial beside the one that its faults strike: each goes on to its own end."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.clock import Deadline
from testbed.events.origin import Origin, attributed
from testbed.record.log import EventLog
from testbed.run.controllers import ControllerExecutor
from testbed.run.inbox import Inbox
from testbed.run.running_job import RunningJob


class OtherJobs:
    """Waits for the ends of jobs, and keeps why one of them cannot go on."""

    def __init__(
        self,
        jobs: Sequence[RunningJob],
        controllers: ControllerExecutor,
        inbox: Inbox,
        log: EventLog,
    ) -> None:
        self._jobs = jobs
        self._controllers = controllers
        self._inbox = inbox
        self._log = log
        self.failures: dict[str, str] = {}
        """By job, why it cannot go on."""

    def note_failures(self) -> None:
        """Write down each job that has failed, once, as soon as that is known."""
        for job in self._jobs:
            if reason := self._failure_of(job):
                self.add_failure(job, reason)

    def add_failure(self, job: RunningJob, reason: str) -> None:
        """Write down why a job has failed; only its first failure counts."""
        if job.name not in self.failures:
            self.failures[job.name] = reason
            with attributed(Origin(job.name)):
                self._log.append("job.failed", job.name, reason=reason)

    def wait_for_ends(self, deadline: Deadline, limit: float) -> None:
        """Wait until each job that has a last step has ended or cannot go on."""
        for job in self._jobs:
            if job.job.endless:
                continue

            def is_over(job: RunningJob = job) -> bool:
                return job.has_ended or bool(self._failure_of(job))

            if not self._inbox.wait(is_over, deadline):
                self.add_failure(job, f"the job did not end within {limit:g} s")
        self.note_failures()

    def measure(self, deadline: Deadline) -> None:
        """Record what the programs of jobs have measured, however they ended."""
        for job in self._jobs:
            if job.programs:
                with attributed(Origin(job.name)):
                    problem = job.programs.measure(self._inbox, self._log, deadline)
                if problem:
                    self.add_failure(job, problem)

    @property
    def reasons(self) -> list[str]:
        """Return what failed, in words."""
        return [f"job {name}: {reason}" for name, reason in self.failures.items()]

    def _failure_of(self, job: RunningJob) -> str:
        of_programs = job.programs.failure if job.programs else ""
        return self._controllers.failure_of(job.name) or of_programs or job.failure
