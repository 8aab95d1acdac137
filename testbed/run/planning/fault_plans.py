"""Separate an experiment's faults of jobs from faults of far ends; pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile

from testbed.errors import FileError
from testbed.plugins import kind, nearest
from testbed.run.planning.steps import FarEndFault, FaultPlan
from testbed.schema import Experiment, Fault, Lab, Target

JOB_FAULT = 0
"""Which of an experiment's faults is the first of the job: those of switches are listed last."""


def job_faults(experiment: Experiment) -> tuple[Fault, ...]:
    """Return the faults of an experiment that hit the job, in the order of their injection."""
    return tuple(takewhile(lambda fault: not is_of_far_end(fault), experiment.faults))


def job_fault(experiment: Experiment, job: str = "") -> Fault | None:
    """Return the first fault of an experiment that hits a job, or the one named; or None."""
    return next((one for one in job_faults(experiment) if job in ("", one.job)), None)


def named_ranks(target: Target, hosts: Sequence[str], lab: Lab) -> tuple[int, ...]:
    """Return the ranks that a target names among the ranks' hosts, in order.

    Nothing for a random one. Hosts that fail together have one rank each.
    """
    if target.group:
        return tuple(hosts.index(host) for host in members(target, hosts, lab))
    if target.host:
        return (hosts.index(target.host),) if target.host in hosts else ()
    return () if target.rank is None else (target.rank,)


def members(target: Target, hosts: Iterable[str], lab: Lab) -> tuple[str, ...]:
    """Return which of some hosts are in the rack, or on the feed, that a target names."""
    return tuple(host for host in hosts if getattr(lab.hosts[host], target.kind) == target.group)


def struck_jobs(experiment: Experiment) -> tuple[str, ...]:
    """Return the names of the jobs that the faults of a trial strike, in their order.

    Without any, it is the job whose steps the faults of switches count.
    """
    faults = job_faults(experiment) or experiment.faults[:1]
    return tuple(dict.fromkeys(fault.job for fault in faults))


def struck_later(plans: Sequence[FaultPlan]) -> dict[str, FaultPlan]:
    """Return by job its first fault, where it waits for a step after another job was struck.

    Until then the pace of the job is not known, and so nothing is predicted of it.
    """
    firsts: dict[str, FaultPlan] = {}
    for plan in plans:
        firsts.setdefault(plan.job, plan)
    return {
        job: plan for job, plan in firsts.items() if plan.after is None and plan is not plans[0]
    }


def is_of_far_end(fault: Fault) -> bool:
    """Return whether a fault is one of an instrument's far end, which only a twin has."""
    return kind("faults", fault.kind).role == "far-end"


def breaks(fault: str) -> bool:
    """Return whether a kind of fault breaks the job, and does not only slow a rank down."""
    return kind("faults", fault).role != "slows"


def check_order(experiment: Experiment) -> None:
    """Raise FileError for a fault of a job after one of a switch, or at an impossible time."""
    of_job = len(job_faults(experiment))
    for entry, fault in enumerate(experiment.faults):
        where = partial(experiment.source.where, "faults", entry)
        if entry >= of_job:
            if not is_of_far_end(fault):
                message = f"{fault.kind} is a fault of a job and must be the first entry"
                raise FileError(where(), message, hint="list the faults of switches after it")
            if fault.at.after is not None:
                message = f"{fault.kind} begins in a step, which `at` does not name"
                raise FileError(where("at", "after"), message, hint="write at: {step: 1}")
        elif entry == 0:
            if fault.at.after is not None:
                message = f"there is no fault before this {fault.kind}"
                raise FileError(where("at", "after"), message, hint="write at: {step: 20}")
        else:
            _check_follows(experiment, entry)


def _check_follows(experiment: Experiment, entry: int) -> None:
    """Refuse what cannot follow another fault in one trial."""
    fault, before = experiment.faults[entry], experiment.faults[:entry]
    where = partial(experiment.source.where, "faults", entry)
    reached = max((one.at.step or 0 for one in before if one.job == fault.job), default=0)
    if fault.at.step is not None and fault.at.step <= reached:
        message = f"{fault.kind} is due in step {fault.at.step}, and the fault before it in "
        hint = "write a later step, or `after` and a time, as {after: 50 ms}"
        raise FileError(where("at", "step"), f"{message}step {reached}", hint=hint)
    for index, one in enumerate(before):
        slow = next((i for i, f in ((index, one), (entry, fault)) if not breaks(f.kind)), None)
        if one.job == fault.job and slow is not None:
            raise FileError(
                experiment.source.where("faults", slow, "kind"),
                f"{experiment.faults[slow].kind} only slows a rank down, and the trial has another "
                f"fault of job {fault.job}",
                hint="give it a variant of its own",
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
            continue
        step = fault.at.step or 1
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
        if main and main.at.step is not None and step > main.at.step:
            message = f"{fault.kind} would begin in step {step}, after the {main.kind}"
            hint = f"write step {main.at.step} or an earlier one"
            raise FileError(where("at", "step"), message, hint=hint)
        yield FarEndFault(fault.kind, name, step, entry)
