"""The processes on a job's spare hosts: started ahead of a failure, or not at all."""

from __future__ import annotations

from testbed.bench.bench import Bench
from testbed.clock import Deadline, now
from testbed.run.inbox import Inbox
from testbed.run.running_job import SLOT, RunningJob

_START_LIMIT = 30.0
_RANK_LIMIT = 10.0


class Spares:
    """The spares of the jobs of one run. `start_seconds` is how long a cold one takes to start."""

    def __init__(self, bench: Bench, inbox: Inbox) -> None:
        self._bench = bench
        self._inbox = inbox
        self.start_seconds = 0.0

    def time_start(self, job: RunningJob) -> None:
        """Start a rank on the first spare host and end it again."""
        for host in job.spares[:1]:
            began = now()
            job.start_one(host, Deadline.after(_START_LIMIT))
            job.await_ready(host, Deadline.after(_START_LIMIT))
            self.start_seconds = now() - began
            self._end(job, host)

    def prepare(self, job: RunningJob, *, warm: bool) -> None:
        """Have the first spare's rank running where it is to be warm, and no other's."""
        wanted = job.spares[:1] if warm else ()
        for host in job.spares:
            if host in wanted and host not in job.processes:
                job.start_one(host, Deadline.after(_RANK_LIMIT))
            elif host not in wanted and host in job.processes:
                self._end(job, host)
        for host in wanted:
            job.await_ready(host, Deadline.after(_RANK_LIMIT))

    def _end(self, job: RunningJob, host: str) -> None:
        what, spare = f"ending the rank on {host}", self._bench.hosts[host]
        self._inbox.in_worker(
            what, lambda limit: spare.end_rank(SLOT, limit), Deadline.after(_RANK_LIMIT)
        )
        job.processes.pop(host, None)
