"""Check that a plan can be carried out, before any device is opened.

Every check raises FileError at the place in the experiment file that causes it.
"""

from __future__ import annotations

from typing import Any

from testbed.errors import FileError
from testbed.fabric.circuits import HostPort
from testbed.plugins import kind, nearest
from testbed.run.planning.failure_groups import check_fails_together
from testbed.run.planning.fault_plans import (
    breaks,
    check_order,
    job_fault,
    job_faults,
    named_ranks,
    struck_jobs,
)
from testbed.run.planning.placement import Placement, Placements
from testbed.schema import TUNABLE, Arm, Experiment, Lab


def check_hosts(
    experiment: Experiment, arm: Arm, placements: Placements, first: Placements
) -> None:
    """Raise FileError for an arm with hosts that the first arm lacks, as they are not opened."""
    opened = frozenset(first.used)
    for host in placements.used:
        if host not in opened:
            arms = "variants" if experiment.variants else "matrix"
            raise FileError(
                experiment.source.where(arms, arm.name),
                f"{arm.name} uses host {host}, which the first arm does not use",
                hint="list the arm that uses the most hosts first",
            )


def check_lab_changes(arm: Arm, lab: Lab) -> None:
    """Raise FileError for an arm that changes a lab field which a running twin cannot change."""
    for override in arm.overrides:
        changed = lab.overridden([override])
        follows = lab.switches.keys() <= lab.twin.cards.keys()
        if follows and changed.twin.settle != lab.twin.settle:
            raise FileError(
                str(override.marks[()].key),
                f"{override.key} changes nothing: every switch settles as its card says",
                hint="remove a switch from twin.cards in the lab file, or this key",
            )
        if _lasting(changed) != _lasting(lab):
            raise FileError(
                str(override.marks[()].key),
                f"{override.key} cannot change from one trial to the next",
                hint=f"set it for the whole run, with -S {override.key}=…",
            )


def _lasting(lab: Lab) -> tuple[Any, ...]:
    return lab.switches, lab.twin.model_dump(exclude=set(TUNABLE))


def check_fault(arm: Arm, lab: Lab, placements: Placements, *, is_only_trial: bool) -> None:
    """Raise FileError for a fault that may not be injected, or for trials that would never end."""
    experiment = arm.experiment
    check_order(experiment)
    fault = job_fault(experiment)
    if fault is None:
        if all(placement.job.endless for placement in placements.values()):
            name = next(iter(placements))
            raise FileError(
                experiment.source.where("jobs", name),
                f"a trial of {arm.name} would never end: job {name} has no fault and no last step",
                hint="give the job `steps`, or the experiment a fault",
            )
        return
    for entry, one in enumerate(job_faults(experiment)):
        _check_job_fault(arm, lab, placements[one.job], entry, is_only_trial=is_only_trial)
    for name in struck_jobs(experiment):
        _check_distinct(experiment, lab, placements[name])


def _check_job_fault(
    arm: Arm, lab: Lab, placement: Placement, entry: int, *, is_only_trial: bool
) -> None:
    experiment, fault = arm.experiment, arm.experiment.faults[entry]
    _check_permission(experiment, lab, entry, placement)
    if not breaks(fault.kind) and fault.hold is None and placement.job.endless:
        raise FileError(
            experiment.source.where("faults", entry),
            f"a trial of {arm.name} would never end: {fault.kind} breaks nothing, and job "
            f"{placement.name} has no last step",
            hint="give the fault `hold`, or the job `steps`",
        )
    _check_moment(experiment, entry, placement)
    if kind("faults", fault.kind).fault.hits == "port":
        _check_port(experiment, lab, entry)
    if fault.target.group:
        check_fails_together(experiment, lab, entry, placement, is_only_trial=is_only_trial)
    else:
        _check_target(experiment, entry, placement, is_only_trial=is_only_trial)


def _check_distinct(experiment: Experiment, lab: Lab, placement: Placement) -> None:
    """Refuse faults of one trial that hit one rank, and more of them than a job has ranks."""
    hosts, faults = placement.hosts, job_faults(experiment)
    hit: set[int] = set()
    count = 0
    for entry, fault in enumerate(faults):
        if fault.job != placement.name:
            continue
        where = experiment.source.where("faults", entry, "target")
        ranks = named_ranks(fault.target, hosts, lab)
        count += len(ranks) or 1
        if count > len(hosts):
            message = f"the trial has more faults than job {placement.name} has ranks"
            raise FileError(where, message, hint="leave one out, or use more ranks")
        if twice := sorted(hit.intersection(ranks)):
            message = f"another fault of the trial hits rank {twice[0]} already"
            raise FileError(where, message, hint="write another rank, or 'random'")
        hit.update(ranks)


def hosts_without_permission(experiment: Experiment, lab: Lab) -> frozenset[str]:
    """Return the hosts on which some fault of an arm is not permitted, or cannot be injected."""
    found = {fault.kind for arm in experiment.arms() for fault in arm.experiment.faults}
    known = {fault: kind("faults", fault) for fault in found if not kind("faults", fault).role}
    return frozenset(
        host
        for host in lab.hosts
        for fault, its in known.items()
        if not lab.permits(fault, host) or _lacks_power(its.fault.instrument, lab, host)
    )


def _lacks_power(instrument: str, lab: Lab, host: str) -> bool:
    return instrument == "power" and lab.hosts[host].power is None


def _check_permission(experiment: Experiment, lab: Lab, entry: int, placement: Placement) -> None:
    """Refuse what may not or cannot be done to every host that may be a rank's in some trial."""
    where, fault = experiment.source.where("faults", entry, "kind"), experiment.faults[entry]
    known = kind("faults", fault.kind).fault
    for host in placement.used:
        if not lab.permits(fault.kind, host):
            raise FileError(
                where,
                f"lab {lab.lab} does not permit {fault.kind} on {host}",
                hint="permit it under `allow` in the lab file, or choose another fault or host",
            )
        if _lacks_power(known.instrument, lab, host):
            raise FileError(
                where,
                f"{host} of lab {lab.lab} has no power unit, so its power cannot be cut",
                hint="add `power:` to it in the lab file, or choose another fault",
            )
    if known.not_on_packet and placement.fabric == "packet":
        raise FileError(
            where,
            known.not_on_packet,
            hint="use a lab with a circuit switch, or choose another fault",
        )
    if known.repair == "circuit" and not placement.circuits:
        raise FileError(
            where,
            f"job {placement.name} has one rank, so no circuit that could go dark",
            hint="give it more ranks, or use another fault",
        )


def _check_moment(experiment: Experiment, entry: int, placement: Placement) -> None:
    last, fault = placement.job.last_step, experiment.faults[entry]
    if last is not None and fault.at.step is not None and fault.at.step > last:
        raise FileError(
            experiment.source.where("faults", entry, "at", "step"),
            f"job {placement.name} ends with step {last} (the first is 0), and {fault.kind} is due "
            f"in step {fault.at.step}",
            hint="write an earlier step here, or more `steps` for the job",
        )


def _check_target(
    experiment: Experiment, entry: int, placement: Placement, *, is_only_trial: bool
) -> None:
    fault, hosts = experiment.faults[entry], placement.hosts
    target = fault.target
    where = experiment.source.where("faults", entry, "target")
    if target.rank is not None and target.rank >= len(hosts):
        raise FileError(
            where,
            f"job {placement.name} has no {target}; its ranks are 0 to {len(hosts) - 1}",
        )
    hits = kind("faults", fault.kind).fault.hits
    is_odd = target.kind == "port" and hits != "port"
    if is_odd or (target.host and target.host not in hosts):
        raise FileError(
            where,
            f"{fault.kind} needs a host that runs a rank, and {target} is not one",
            hint="write 'random', 'rank 0' or one of " + ", ".join(hosts),
        )
    on_it = [f"rank {rank}" for rank, host in enumerate(hosts) if host == target.host]
    if len(on_it) > 1 and hits == "rank":
        message = f"{fault.kind} hits one rank, and {target} runs {' and '.join(on_it)}"
        raise FileError(where, message, hint=f"write '{on_it[0]}'")
    moves_on = placement.job.endless and experiment.recovers
    if target.kind == "host" and moves_on and not is_only_trial:
        raise FileError(
            where,
            f"{target} may be a spare in later trials, as the job lives on from trial to trial",
            hint=f"write 'rank {hosts.index(target.host)}', or give the job `steps`",
        )


def _check_port(experiment: Experiment, lab: Lab, entry: int) -> None:
    fault, where = experiment.faults[entry], experiment.source.where("faults", entry, "target")
    target = fault.target
    if target.kind != "port":
        raise FileError(
            where,
            f"{fault.kind} needs a port of a host, and {target} is not one",
            hint="write it as 'h0.p1'",
        )
    port = HostPort(target.host, target.port)
    if port not in (wiring := lab.wiring()):
        known = sorted(map(str, wiring))
        raise FileError(
            where, f"{port} is not a port of lab {lab.lab}", hint=nearest(str(port), known)
        )
    is_attenuated = {wiring[port].tx, wiring[port].rx} & lab.attenuated().keys()
    if kind("faults", fault.kind).fault.instrument == "attenuator" and not is_attenuated:
        raise FileError(
            where,
            f"no fibre of {port} runs through an attenuator of lab {lab.lab}",
            hint="list one under `attenuators:` in the lab file, or write another port",
        )
