"""Experiments whose job is a model, which is computed without a run on hosts."""

from __future__ import annotations

from testbed.errors import FileError
from testbed.plugins import kind
from testbed.schema import Arm, Experiment


def is_model(experiment: Experiment) -> bool:
    """Return whether an experiment's job is a model; raise FileError if only in some arms."""
    models = {arm.name: _has_model(arm) for arm in experiment.arms()}
    if not any(models.values()):
        return False
    for name, found in models.items():
        if not found:
            raise FileError(
                experiment.source.where("variants" if experiment.variants else "matrix"),
                f"{name} runs a job and other arms compute a model; one experiment cannot do both",
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
        message = "an experiment with a model must have exactly one job"
        raise FileError(where("jobs"), message, hint="remove the others")
    if experiment.needs.hosts:
        message = f"a model runs on no host, and needs.hosts is {experiment.needs.hosts}"
        raise FileError(where("needs", "hosts"), message, hint="write 0")
    if experiment.needs.attributes:
        message = "a model runs on no host, so none needs attributes"
        raise FileError(where("needs", "attributes"), message, hint="remove `attributes`")
    if job.hosts:
        message = "a model runs on no host, so it cannot have `hosts`"
        raise FileError(where("jobs", name, "hosts"), message, hint="remove `hosts`")
    if job.ranks_per_host > 1:
        message = "a model runs on no host, so it cannot have `ranks_per_host`"
        raise FileError(where("jobs", name, "ranks_per_host"), message, hint="remove it")
    for key in ("faults", "policy", "controllers"):
        if getattr(experiment, key):
            message = f"a model has no hosts for {key} to act on"
            raise FileError(where(key), message, hint=f"remove `{key}`")
    for override in arm.overrides:
        message = f"a model uses no lab, so {override.key} changes nothing"
        raise FileError(str(override.marks[()].key), message, hint="remove this key")


def _has_model(arm: Arm) -> bool:
    return any(kind("jobs", job.kind).role == "model" for job in arm.experiment.jobs.values())
