"""The controllers of a trial, put to work with what carries out their commands."""

from __future__ import annotations

from typing import Literal

from testbed.plugins import kind
from testbed.record.log import EventLog
from testbed.run.circuit_commands import CircuitCommands
from testbed.run.controllers import ControllerExecutor, Handlers
from testbed.run.job_commands import JobCommands
from testbed.run.job_view import view_of
from testbed.run.planning.controllers import made_controllers, specs_of
from testbed.run.running_job import RunningJob
from testbed.schema import Experiment


def start_controllers(
    experiment: Experiment,
    job: RunningJob,
    log: EventLog,
    lives_with: Literal["trial", "job"] = "trial",
    beside: ControllerExecutor | None = None,
) -> ControllerExecutor:
    """Return what reacts on a running job while it or a trial lasts; timers are not set yet.

    What is put to work for a trial acts `beside` what lives with the job.
    """
    handlers = {**CircuitCommands(job.bench, job.inbox, log).handlers}
    for spec in specs_of(experiment, job.job):
        handlers |= _own_handlers(spec.kind, job, log)
    of_jobs = {job.name: JobCommands(job, log).handlers}
    controllers = made_controllers(experiment, job.job, lives_with)
    return ControllerExecutor(controllers, view_of(job), job.inbox, log, handlers, of_jobs, beside)


def _own_handlers(name: str, job: RunningJob, log: EventLog) -> Handlers:
    """Return what carries out the commands that only one kind of controller gives."""
    description = kind("controllers", name)
    made: Handlers = description.load_handlers()(job, log) if description.handlers else {}
    return made
