"""What a job on a packet switch cannot have: circuits, and recoveries that need them. Pure."""

from __future__ import annotations

from testbed.errors import FileError
from testbed.fabric.topologies import RING, name_of
from testbed.jobs.contracts import CircuitRequestingJob, Job, StepJob
from testbed.plugins import kind
from testbed.run.planning.job_circuits import refuse_other_circuits
from testbed.schema import Experiment, Lab

_OR_ELSE = ", or use a lab with a circuit switch"


def check_packet_ports(experiment: Experiment, lab: Lab, name: str, hosts: tuple[str, ...]) -> None:
    """Refuse hosts that are not all on one packet switch, and what only light can do."""
    where = experiment.source.where("jobs", name)
    plugged = lab.plugged()
    used = frozenset(hosts)
    switches = {end.switch for port, end in plugged.items() if port.host in used}
    for host in hosts:
        if not lab.hosts[host].ports_on("packet"):
            raise FileError(
                where,
                f"{host} of lab {lab.lab} is on no packet switch",
                hint="give one of its ports `packet` in the lab file, or name other hosts",
            )
    if len(switches) > 1:
        several = ", ".join(sorted(switches))
        raise FileError(
            where,
            f"the hosts of job {name} are on several packet switches: {several}",
            hint="choose hosts on one packet switch",
        )
    refuse_other_circuits(experiment, name, "a packet switch has none", or_else=_OR_ELSE)


def check_packet_job(experiment: Experiment, name: str, job: Job) -> None:
    """Refuse what a job asks of circuits where there are none, and what nothing can recover."""
    where = experiment.source.where
    if isinstance(job, CircuitRequestingJob):
        message = f"the ranks of job {name} ask for circuits, and a packet switch has none"
        raise FileError(where("jobs", name, "kind"), message, hint="use a lab with circuits")
    for spec in experiment.reacting():
        has_steps = job.topology is not None or isinstance(job, StepJob)
        if spec.job == name and "membership" in spec.acts_on and not has_steps:
            message = f"{spec.kind} restores a rank from the one before it, and "
            message += _why_not(name, getattr(experiment.jobs[name].options, "mesh", None))
            raise FileError(where(*spec.steps, "kind"), message, hint=f"remove {spec.kind}")
    if getattr(experiment.jobs[name].options, "circuits", "auto") != "auto":
        message = "a packet switch has no circuits to re-point or to forward over"
        hint = f"remove `circuits`{_OR_ELSE}"
        raise FileError(where("jobs", name, "circuits"), message, hint=hint)
    if isinstance(job, CircuitRequestingJob):
        message = f"the ranks of job {name} follow circuits, and a packet switch has none"
        hint = "write `fabric: circuit`, and use a lab with a circuit switch"
        raise FileError(where("jobs", name, "kind"), message, hint=hint)
    if job.topology is not None and job.topology != RING:
        message = f"a packet switch has no circuits to make a {name_of(job.topology)} of"
        hint = f"remove `topology`{_OR_ELSE}"
        raise FileError(where("jobs", name, "topology"), message, hint=hint)


def _why_not(name: str, mesh: object) -> str:
    if mesh is not None:
        return f"those of job {name} are in groups of a mesh, beside others that hold other states"
    return f"those of job {name} time collectives in turn: one that is cut short is no sample"


def check_spares_in_use(experiment: Experiment, name: str, hosts: tuple[str, ...]) -> None:
    """Refuse a spare on a host in use to a policy that does not tell ranks on one host apart."""
    for spec in experiment.reacting():
        if "membership" not in spec.acts_on or spec.job != name or len({*hosts}) == len(hosts):
            continue
        if not kind("controllers", spec.kind).recovery.shares_hosts:
            message = f"{spec.kind} takes hosts with one rank each, and a spare is on a host in use"
            where = experiment.source.where("jobs", name, "hosts")
            raise FileError(where, message, hint="list another host, or use splice")
