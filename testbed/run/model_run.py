"""Runs whose trials are computed by a model, without opening any device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from testbed.clock import Deadline
from testbed.errors import LabError
from testbed.jobs.contracts import PREDICTED, Values
from testbed.run.model_workers import Compute, ModelTask, one_after_another
from testbed.run.planning.plan import Plan
from testbed.run.planning.steps import RunTrial
from testbed.run.run_end import append_run_end
from testbed.schema import Experiment

if TYPE_CHECKING:
    from testbed.record.log import EventLog
    from testbed.record.rundir import RunDirectory
    from testbed.run.inbox import Inbox


def compute(
    plan: Plan,
    experiment: Experiment,
    run: RunDirectory,
    log: EventLog,
    inbox: Inbox,
    compute_all: Compute = one_after_another,
) -> None:
    """Compute every trial of a plan; the outcome is in the log's event `run.end`.

    Wherever they are computed, the record has the trials in the order of the plan.
    """
    deadline = Deadline.after(experiment.limits.run)

    def check() -> None:
        inbox.check()
        if deadline.passed:
            raise LabError(f"the run took longer than its limit of {experiment.limits.run:g} s")

    problem: Exception | None = None
    try:
        log.append("phase", "trials")
        results = compute_all(_tasks(plan, experiment), check)
        for trial in plan.trials:
            check()
            _record(trial, results, log)
    except Exception as error:
        problem = error
    inbox.close()
    append_run_end(log, run, problem, [], inbox.signals)


def _tasks(plan: Plan, experiment: Experiment) -> list[ModelTask]:
    """Return what is computed; every arm draws from the same seeds, to be compared by pairs."""
    specs = {arm.name: arm.experiment.jobs for arm in experiment.arms()}
    tasks = []
    for trial in plan.trials:
        (spec,) = specs[trial.arm].values()
        seed = plan.seed + trial.number // len(specs)
        tasks.append(ModelTask(spec.kind, spec.options, seed))
    return tasks


def _record(trial: RunTrial, results: Iterator[Values], log: EventLog) -> None:
    log.trial = trial.number
    log.append("trial.begin", trial.arm)
    values: dict[str, Any] = dict(next(results))
    if predicted := values.pop(PREDICTED, None):
        log.append("prediction", trial.arm, values=predicted)
    log.append("model", trial.arm, **values)
    log.append("trial.end", trial.arm, valid=True, recovered=True, reason="")
    log.trial = None
