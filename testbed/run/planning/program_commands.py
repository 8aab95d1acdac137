"""The command lines of ordinary programs in a plan, and their restrictions; pure functions."""

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
    """Return the command line for each rank's host; empty for a job of the testbed's own ranks.

    Raise FileError where the lab lacks something that the program needs, or where a fault is to be
    injected at a step of a program.
    """
    job = placement.job
    if not isinstance(job, ProgramJob):
        return ()
    if any(fault.job == placement.name for fault in experiment.faults):
        raise FileError(
            experiment.source.where("faults", JOB_FAULT),
            f"job {placement.name} runs a program, which has no steps in which a fault could begin",
            hint="remove the fault, or use a job of kind train or allreduce",
        )
    try:
        return job.command_lines([lab.hosts[host] for host in placement.hosts])
    except ValueError as error:
        where = experiment.source.where("jobs", placement.name)
        raise FileError(where, f"{placement.kind} cannot run in lab {lab.lab}: {error}") from None


def refuse_a_twin(experiment: Experiment) -> None:
    """Raise FileError for a job whose numbers make sense on hardware only."""
    for arm in experiment.arms():
        for name, spec in arm.experiment.jobs.items():
            job = kind("jobs", spec.kind).load()(spec.options)
            if isinstance(job, ProgramJob) and job.hardware_only:
                raise FileError(
                    experiment.source.where("jobs", name, "kind"),
                    f"{spec.kind} cannot run on a twin: {job.hardware_only}",
                    hint="run it on the lab, without --twin",
                )
