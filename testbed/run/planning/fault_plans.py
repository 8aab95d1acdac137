"""Separate an experiment's fault of the job from faults of far ends; pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from testbed.errors import FileError
from testbed.plugins import kind, nearest
from testbed.run.planning.steps import FarEndFault
from testbed.schema import Experiment, Fault, Lab

JOB_FAULT = 0
"""Which of an experiment's faults is that of the job: faults of switches are listed after it."""


def job_fault(experiment: Experiment) -> Fault | None:
    """Return the fault of an experiment that hits the job, or None."""
    first = next(iter(experiment.faults), None)
    return None if first is None or is_of_far_end(first) else first


def struck_job(experiment: Experiment) -> str:
    """Return the name of the job that the faults of a trial strike, else that of the first job."""
    return next((fault.job for fault in experiment.faults), next(iter(experiment.jobs)))


def check_jobs(experiment: Experiment) -> None:
    """Raise FileError where the faults of a trial name several jobs."""
    struck = struck_job(experiment)
    for entry, fault in enumerate(experiment.faults):
        if fault.job != struck:
            raise FileError(
                experiment.source.where("faults", entry, "job"),
                f"faults of two jobs in one trial, {struck} and {fault.job}, cannot be injected "
                "yet",
                hint="give each a variant of its own",
            )


def is_of_far_end(fault: Fault) -> bool:
    """Return whether a fault is one of an instrument's far end, which only a twin has."""
    return kind("faults", fault.kind).role == "far-end"


def breaks(fault: str) -> bool:
    """Return whether a kind of fault breaks the job, and does not only slow a rank down."""
    return kind("faults", fault).role != "slows"


def check_order(experiment: Experiment) -> None:
    """Raise FileError where a fault of a switch is listed before that of the job."""
    kinds = [is_of_far_end(fault) for fault in experiment.faults]
    if kinds[:1] == [True] and False in kinds:
        entry = kinds.index(False)
        raise FileError(
            experiment.source.where("faults", entry),
            f"{experiment.faults[entry].kind} is a fault of a job and must be the first entry",
            hint="list the faults of switches after it",
        )


def far_end_faults(experiment: Experiment, lab: Lab) -> tuple[FarEndFault, ...]:
    """Return the far-end faults of a trial, in the order of their steps.

    Raise FileError for a target that is no switch, and for a fault that would begin after that of
    the job.
    """
    return tuple(sorted(_checked(experiment, lab), key=lambda fault: fault.step))


def _checked(experiment: Experiment, lab: Lab) -> Iterator[FarEndFault]:
    for entry, fault in enumerate(experiment.faults):
        where = partial(experiment.source.where, "faults", entry)
        if not is_of_far_end(fault):
            if entry != JOB_FAULT:
                raise FileError(
                    where(),
                    "a second fault of a job in one trial cannot be injected yet",
                    hint="give it a variant of its own",
                )
            continue
        name = str(fault.target)
        if name not in lab.switches:
            hint = nearest(name, list(lab.switches))
            raise FileError(
                where("target"), f"{name!r} is not a switch of lab {lab.lab}", hint=hint
            )
        if fault.hold is not None:
            message = f"{fault.kind} lasts until the trial ends, so it cannot have `hold`"
            hint = "remove `hold`, or limit how often the fault occurs with `count`"
            raise FileError(where("hold"), message, hint=hint)
        main = job_fault(experiment)
        if main and fault.at.step > main.at.step:
            message = f"{fault.kind} would begin in step {fault.at.step}, after the {main.kind}"
            hint = f"write step {main.at.step} or an earlier one"
            raise FileError(where("at", "step"), message, hint=hint)
        yield FarEndFault(fault.kind, name, fault.at.step, entry)
