"""What controllers see of a running job and of its lab."""

from __future__ import annotations

from collections.abc import Collection

from testbed.bench.bench import Bench
from testbed.clock import now
from testbed.control.controller import JobView, View
from testbed.run.places import ports_of_ranks
from testbed.run.planning.controllers import groups_of
from testbed.run.planning.slices import rack_of
from testbed.run.running_job import RunningJob


def job_view(job: RunningJob, committed: int) -> JobView:
    """Return a job as its ranks are now, with so many steps committed."""
    hosts = job.bench.lab.hosts
    of_hosts = {host: hosts[host].ports_on("circuit") for host in job.hosts}
    ports = ports_of_ranks(job.job, job.hosts, of_hosts)
    generation = max(job.generation, 1)  # a job's controllers begin before its first one is formed
    about = generation, committed - 1, job.requests, job.collective, _spares(job)
    return JobView(job.hosts, ports, *about, *groups_of(job.job), job.is_recovered)


def _spares(job: RunningJob) -> tuple[str, ...]:
    return tuple(place.host for place in job.spares)


def view_of(jobs: Collection[RunningJob], bench: Bench) -> View:
    """Return what the controllers of a trial begin with."""
    lab = bench.lab
    fences = {host: lab.fences(host) for host in lab.hosts}
    on_circuits = any(job.fabric == "circuit" for job in jobs)
    ports = lab.ports() if on_circuits else dict.fromkeys(lab.hosts, ())
    return View(
        now(),
        {job.name: job_view(job, job.completed) for job in jobs},
        tuple(host for job in jobs for host in _spares(job)),
        ports,
        fences,
        bench.fabric.circuits,
        rack_of(lab),
    )
