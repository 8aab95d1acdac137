"""Runs that compute a model and open nothing."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from testbed.clock import Deadline
from testbed.errors import EXIT_BUG, FileError, LabError, TestbedError
from testbed.plugins import kind
from testbed.run.planning.plan import Plan, RunTrial
from testbed.schema import Arm, Experiment

if TYPE_CHECKING:
    from testbed.jobs.contracts import Model
    from testbed.record.log import EventLog
    from testbed.record.rundir import RunDirectory
    from testbed.run.inbox import Inbox


def is_on_paper(experiment: Experiment) -> bool:
    """Tell whether an experiment's job is a model; raise FileError for one that is half of one."""
    models = {arm.name: _is_model(arm) for arm in experiment.arms()}
    if not any(models.values()):
        return False
    for name, is_model in models.items():
        if not is_model:
            raise FileError(
                experiment.source.where("variants" if experiment.variants else "matrix"),
                f"{name} runs a job and other arms compute a model, and no run can be both",
                hint="write two experiments",
            )
    for arm in experiment.arms():
        _check_that_nothing_runs(arm)
    return True


def _check_that_nothing_runs(arm: Arm) -> None:
    """Refuse what only a job that runs can be given."""
    experiment = arm.experiment
    where = experiment.source.where
    name, job = next(iter(experiment.jobs.items()))
    if len(experiment.jobs) > 1:
        raise FileError(where("jobs"), "a model is computed alone", hint="leave one job")
    if experiment.needs.hosts:
        message = f"a model runs on no host, and this says it needs {experiment.needs.hosts}"
        raise FileError(where("needs", "hosts"), message, hint="write 0")
    if job.hosts:
        raise FileError(where("jobs", name, "hosts"), "a model runs on no host")
    for key in ("faults", "policy"):
        if getattr(experiment, key):
            raise FileError(where(key), f"a model has no hosts for {key} to act on")
    for override in arm.overrides:
        message = f"a model asks nothing of a lab, so {override.key} changes nothing"
        raise FileError(str(override.marks[()].key), message)


def _is_model(arm: Arm) -> bool:
    return any(kind("jobs", job.kind).role == "model" for job in arm.experiment.jobs.values())


def compute(
    plan: Plan, experiment: Experiment, run: RunDirectory, log: EventLog, inbox: Inbox
) -> None:
    """Compute every trial of a plan; how it went is in the log's `run.end`."""
    arms = {arm.name: arm for arm in experiment.arms()}
    deadline = Deadline.after(experiment.limits.run)
    error, code = "", 0
    try:
        log.append("phase", "trials")
        for trial in plan.trials:
            inbox.check()
            if deadline.passed:
                raise LabError(f"the run took longer than its limit of {experiment.limits.run:g} s")
            _compute(trial, arms[trial.arm], log)
    except TestbedError as problem:
        error, code = str(problem), problem.exit_code
    except Exception as problem:
        error, code = f"{type(problem).__name__}: {problem}", EXIT_BUG
        run.write_text("traceback.txt", traceback.format_exc())
    inbox.close()
    log.append(
        "run.end",
        error=error,
        exit_code=code,
        cleanup="verified",
        left=[],
        signals=list(inbox.signals),
    )


def _compute(trial: RunTrial, arm: Arm, log: EventLog) -> None:
    (spec,) = arm.experiment.jobs.values()
    model: Model = kind("jobs", spec.kind).load()(spec.options)
    log.trial = trial.number
    log.append("trial.begin", trial.arm)
    log.append("model", trial.arm, **model.values())
    log.append("trial.end", trial.arm, valid=True, recovered=True, reason="")
    log.trial = None
