"""The processes on a job's spare hosts: started ahead of a failure, or not at all."""

from __future__ import annotations

from testbed.clock import Deadline, now
from testbed.run.running_job import RunningJob

_START_LIMIT = 30.0
_RANK_LIMIT = 10.0


def time_start(job: RunningJob) -> float:
    """Start a rank on the first spare host and end it again; return how long the start took."""
    host, began = job.spares[0], now()
    job.start_one(host, Deadline.after(_START_LIMIT))
    job.await_ready((host,), Deadline.after(_START_LIMIT))
    seconds = now() - began
    job.end_one(host, Deadline.after(_RANK_LIMIT))
    return seconds


def prepare_spares(job: RunningJob, *, warm: bool) -> None:
    """Have the first spare's rank running where it is to be warm, and no other's."""
    wanted = job.spares[:1] if warm else ()
    for host in job.spares:
        if host in wanted and host not in job.processes:
            job.start_one(host, Deadline.after(_RANK_LIMIT))
        elif host not in wanted and host in job.processes:
            job.end_one(host, Deadline.after(_RANK_LIMIT))
    job.await_ready(wanted, Deadline.after(_RANK_LIMIT))
