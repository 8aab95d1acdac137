"""Processes on the spares of a job, which wait to become ranks."""

from __future__ import annotations

from testbed.clock import Deadline, now
from testbed.jobs.contracts import ReplicatedJob
from testbed.run.places import Place
from testbed.run.running_job import RunningJob

_START_LIMIT = 30.0
_LIMIT = 10.0


def first_spare(job: RunningJob) -> tuple[Place, ...]:
    """Return the places of the spare that would be used first: all of a host on rails."""
    if not isinstance(job.job, ReplicatedJob):
        return job.spares[:1]
    return tuple(place for place in job.spares if place.host == job.spares[0].host)


def time_spare_start(job: RunningJob) -> float:
    """Measure how long processes take to start on the first spare, all at once, in seconds."""
    places, began = first_spare(job), now()
    for place in places:
        job.start_one(place, Deadline.after(_START_LIMIT))
    job.await_ready(places, Deadline.after(_START_LIMIT))
    seconds = now() - began
    for place in places:
        job.end_one(place, Deadline.after(_LIMIT))
    return seconds


def prepare_spares(job: RunningJob, *, warm: bool) -> None:
    """Keep waiting processes on the first spare if `warm`, and on no other."""
    wanted = first_spare(job) if warm else ()
    for place in job.spares:
        if place in wanted and place not in job.processes:
            job.start_one(place, Deadline.after(_LIMIT))
        elif place not in wanted and place in job.processes:
            job.end_one(place, Deadline.after(_LIMIT))
    job.await_ready(wanted, Deadline.after(_LIMIT))
