"""The controllers of a trial, put to work with what carries out their commands."""

from __future__ import annotations

from testbed.plugins import kind
from testbed.record.log import EventLog
from testbed.run.circuit_commands import CircuitCommands
from testbed.run.controllers import ControllerExecutor, Handlers
from testbed.run.job_commands import JobCommands
from testbed.run.job_view import view_of
from testbed.run.planning.controllers import made_controllers
from testbed.run.running_job import RunningJob
from testbed.schema import Experiment


def start_controllers(experiment: Experiment, job: RunningJob, log: EventLog) -> ControllerExecutor:
    """Return what reacts in a trial of an experiment on a running job; timers are not set yet."""
    handlers = {**CircuitCommands(job.bench, job.inbox).handlers}
    for spec in experiment.reacting():
        handlers |= _own_handlers(spec.kind, job, log)
    of_jobs = {job.name: JobCommands(job, log).handlers}
    controllers, view = made_controllers(experiment), view_of(job)
    return ControllerExecutor(controllers, view, job.inbox, log, handlers, of_jobs)


def _own_handlers(name: str, job: RunningJob, log: EventLog) -> Handlers:
    """Return what carries out the commands that only one kind of controller gives."""
    description = kind("controllers", name)
    made: Handlers = description.load_handlers()(job, log) if description.handlers else {}
    return made
