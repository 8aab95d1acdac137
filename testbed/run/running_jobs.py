"""The running jobs of an arm: several may run side by side, each in places of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from testbed.events import Event
from testbed.events.origin import Origin, attributed
from testbed.record.log import EventLog
from testbed.run.agent_reports import record
from testbed.run.inbox import Report
from testbed.run.running_job import RunningJob
from testbed.run.step_record import StepRecord

Follower = Callable[[RunningJob, Report, Event | None], None]


@lru_cache(64)
def _origin_of(job: str) -> Origin:
    return Origin(job)


class RunningJobs(Mapping[str, RunningJob]):
    """The running jobs by name, and which of them an agent's report is about."""

    def __init__(self, jobs: Mapping[str, RunningJob]) -> None:
        self._jobs = dict(jobs)

    def __getitem__(self, name: str) -> RunningJob:
        return self._jobs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)

    def of(self, report: Report) -> list[RunningJob]:
        """Return the jobs that a report is about: of one process that of its place.

        What is said of a host is about each job there; the only job of a run hears of all hosts.
        """
        jobs = list(self._jobs.values())
        if len(jobs) <= 1:
            return jobs
        if report.place is not None:
            return [job for job in jobs if report.place in job.members.all]
        return [job for job in jobs if any(at.host == report.host for at in job.members.all)]

    def record(
        self,
        report: Report,
        log: EventLog,
        follow: Follower,
        records: Mapping[str, StepRecord] = {},
    ) -> None:
        """Write an agent's report to the log, and let `follow` handle it for each job it is about.

        What is written meanwhile names the job, and the report as its cause. `records` say which
        steps of a job are written.
        """
        jobs = self.of(report)
        only = jobs[0] if len(jobs) == 1 else None
        name, rank = (only.name, only.rank_in(report)) if only else ("", None)
        with attributed(_origin_of(name)):
            event = record(report, rank, records.get(name, log))
        cause = event.seq if event and event.is_recorded else None
        for job in jobs:
            with attributed(Origin(job.name, cause=cause)):
                follow(job, report, event)
