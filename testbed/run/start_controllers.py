"""The controllers of a trial, put to work with what carries out their commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from testbed.plugins import kind
from testbed.record.log import EventLog
from testbed.run.circuit_commands import CircuitCommands
from testbed.run.context import RunContext
from testbed.run.controllers import ControllerExecutor, Handler, Handlers
from testbed.run.job_commands import JobCommands
from testbed.run.job_view import view_of
from testbed.run.planning.controllers import made_controllers, specs_of
from testbed.run.running_job import RunningJob
from testbed.schema import ControllerSpec, Experiment


def start_controllers(
    experiment: Experiment,
    jobs: Mapping[str, RunningJob],
    context: RunContext,
    lives_with: Literal["trial", "job"] = "trial",
    beside: ControllerExecutor | None = None,
) -> ControllerExecutor:
    """Return what reacts on running jobs while they or a trial last; timers are not set yet.

    What is put to work for a trial acts `beside` what lives with the jobs.
    """
    bench, inbox, log = context.bench, context.inbox, context.log
    kinds = {name: job.job for name, job in jobs.items()}
    own = _own_commands(specs_of(experiment, kinds), jobs, log)
    handlers = {**CircuitCommands(bench, inbox, log).handlers, **own}
    of_jobs = {name: JobCommands(job, log).handlers for name, job in jobs.items()}
    controllers = made_controllers(experiment, kinds, lives_with)
    view = view_of(jobs.values(), bench)
    return ControllerExecutor(controllers, view, inbox, log, handlers, of_jobs, beside)


def _own_commands(
    specs: Iterable[ControllerSpec], jobs: Mapping[str, RunningJob], log: EventLog
) -> Handlers:
    """Return what carries out the commands that only one kind of controller gives.

    Controllers of one kind that act on several jobs have a handler for each job.
    """
    made = {spec.name: _own_handlers(spec.kind, jobs[spec.job], log) for spec in specs}

    def handler(command: type) -> Handler:
        own = {name: known[command] for name, known in made.items() if command in known}
        other = next(iter(own.values()))
        return lambda what, sender: own.get(sender.name, other)(what, sender)

    return {command: handler(command) for known in made.values() for command in known}


def _own_handlers(name: str, job: RunningJob, log: EventLog) -> Handlers:
    description = kind("controllers", name)
    made: Handlers = description.load_handlers()(job, log) if description.handlers else {}
    return made
