"""Runs whose trials are computed by a model, without opening any device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from testbed.clock import Deadline
from testbed.errors import LabError
from testbed.plugins import kind
from testbed.run.planning.plan import Plan
from testbed.run.planning.steps import RunTrial
from testbed.run.run_end import append_run_end
from testbed.schema import Arm, Experiment

if TYPE_CHECKING:
    from testbed.jobs.contracts import Model
    from testbed.record.log import EventLog
    from testbed.record.rundir import RunDirectory
    from testbed.run.inbox import Inbox


def compute(
    plan: Plan, experiment: Experiment, run: RunDirectory, log: EventLog, inbox: Inbox
) -> None:
    """Compute every trial of a plan; the outcome is in the log's event `run.end`."""
    arms = {arm.name: arm for arm in experiment.arms()}
    deadline = Deadline.after(experiment.limits.run)
    problem: Exception | None = None
    try:
        log.append("phase", "trials")
        for trial in plan.trials:
            inbox.check()
            if deadline.passed:
                raise LabError(f"the run took longer than its limit of {experiment.limits.run:g} s")
            # Every arm draws from the same seeds, so that its trials can be compared by pairs.
            _compute(trial, arms[trial.arm], plan.seed + trial.number // len(arms), log)
    except Exception as error:
        problem = error
    inbox.close()
    append_run_end(log, run, problem, [], inbox.signals)


def _compute(trial: RunTrial, arm: Arm, seed: int, log: EventLog) -> None:
    (spec,) = arm.experiment.jobs.values()
    model: Model = kind("jobs", spec.kind).load()(spec.options)
    log.trial = trial.number
    log.append("trial.begin", trial.arm)
    values: Mapping[str, Any] = model.values(seed)
    log.append("model", trial.arm, **values)
    log.append("trial.end", trial.arm, valid=True, recovered=True, reason="")
    log.trial = None
