"""Ordinary programs in a plan: their command lines, and what cannot be done with them. Pure."""

from __future__ import annotations

from testbed.errors import FileError
from testbed.jobs.contracts import ProgramJob
from testbed.plugins import kind
from testbed.run.planning.fault_plans import JOB_FAULT
from testbed.run.planning.placement import Placement
from testbed.schema import Experiment, Lab


def command_lines(
    experiment: Experiment, lab: Lab, placement: Placement
) -> tuple[tuple[str, ...], ...]:
    """Return what each rank's host runs; nothing for a job of our own ranks.

    Raise FileError where the lab lacks what the program needs, or a fault waits for its steps.
    """
    job = placement.job
    if not isinstance(job, ProgramJob):
        return ()
    if experiment.faults:
        raise FileError(
            experiment.source.where("faults", JOB_FAULT),
            f"job {placement.name} runs a program, which has no steps to break something in",
            hint="break a job of kind train or allreduce",
        )
    try:
        return job.command_lines([lab.hosts[host] for host in placement.hosts])
    except ValueError as error:
        where = experiment.source.where("jobs", placement.name)
        raise FileError(where, f"{placement.kind} cannot run in lab {lab.lab}: {error}") from None


def refuse_a_twin(experiment: Experiment) -> None:
    """Raise FileError for a job whose numbers could only come from hardware."""
    for arm in experiment.arms():
        for name, spec in arm.experiment.jobs.items():
            job = kind("jobs", spec.kind).load()(spec.options)
            if isinstance(job, ProgramJob) and job.hardware_only:
                raise FileError(
                    experiment.source.where("jobs", name, "kind"),
                    f"{spec.kind} cannot run on a twin: {job.hardware_only}",
                    hint="run it on the lab, without --twin",
                )
