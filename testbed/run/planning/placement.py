"""Placement of jobs: the hosts of their ranks in a lab, and the circuits between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, field

from testbed.errors import FileError
from testbed.fabric.circuits import HostPort, Matching
from testbed.fabric.owners import merged
from testbed.jobs.contracts import (
    CircuitRequestingJob,
    FabricDependentJob,
    HostSharingProgram,
    Job,
    ProgramJob,
    RailsJob,
    ReplicatedJob,
)
from testbed.plugins import kind, nearest
from testbed.run.places import Place, Slots
from testbed.run.planning.host_attributes import check_attributes, check_named_host
from testbed.run.planning.job_circuits import (
    RingPorts,
    check_two_rings,
    hosts_in_rack,
    plan_circuits,
)
from testbed.run.planning.packet_jobs import (
    check_packet_job,
    check_packet_ports,
    check_spares_in_use,
)
from testbed.run.planning.rail_circuits import plan_rails
from testbed.run.planning.shared_hosts import Users, check_shared, check_use
from testbed.schema import Experiment, FabricKind, Lab, avoided


@dataclass(frozen=True, slots=True)
class Placement:
    """The places of a job: those of ranks in rank order, then the spares, and their circuits."""

    name: str
    job: Job
    kind: str
    places: tuple[Place, ...]
    spare_places: tuple[Place, ...]
    circuits: Matching
    fabric: FabricKind = "circuit"
    asked: tuple[Matching, ...] = ()
    """All circuits that the ranks will ask for while they run, by number."""
    ring_ports: Mapping[str, RingPorts] = field(default_factory=dict)
    """By host, the ports to its neighbours in the ring of ranks; none on a packet switch."""

    def ports(self, lab: Lab) -> tuple[HostPort, ...]:
        """Return the fabric ports that the hosts of the job use."""
        return tuple(
            HostPort(host, port)
            for host in self.used
            for port in lab.hosts[host].ports_on(self.fabric)
        )

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts of the ranks, in rank order."""
        return tuple(place.host for place in self.places)

    @property
    def spares(self) -> tuple[str, ...]:
        """Return the hosts of the spares."""
        return tuple(place.host for place in self.spare_places)

    @property
    def used(self) -> tuple[str, ...]:
        """Return the hosts of ranks and spares, each once."""
        return tuple(dict.fromkeys((*self.hosts, *self.spares)))


class Placements(dict[str, Placement]):
    """The jobs of an arm by name, in the order of the file, on hosts of a lab."""

    @property
    def used(self) -> tuple[str, ...]:
        """Return the hosts of all ranks and spares, each once."""
        return tuple(dict.fromkeys(host for one in self.values() for host in one.used))

    @property
    def owned(self) -> dict[str, Matching]:
        """Return the circuits that each job begins with."""
        return {name: one.circuits for name, one in self.items()}

    @property
    def circuits(self) -> Matching:
        """Return the circuits of all jobs."""
        return merged(self.owned)


def place(experiment: Experiment, lab: Lab, without: Set[str] = frozenset()) -> Placements:
    """Return the hosts of each job of an experiment in rank order, and the circuits between them.

    A job that names no hosts gets those that no other job uses, in the order of the lab file, but
    none of `without`. Raise FileError where the lab lacks hosts, ports or fibres, and for a host of
    two jobs which do not say that they share it.
    """
    _check_needs(experiment, lab)
    unfit = without | avoided(lab).keys()
    suited = [host for host in lab.hosts if host not in unfit]
    users: dict[str, tuple[str, ...]] = {}
    slots = Slots()
    placed: dict[str, Placement] = {}
    for name in sorted(experiment.jobs, key=lambda name: experiment.jobs[name].hosts is None):
        placed[name] = _placed(experiment, lab, name, suited, users, slots, placed)
        check_use(experiment, name, placed[name].used, users)
        users |= {host: (*users.get(host, ()), name) for host in placed[name].used}
    if len(users) > experiment.needs.hosts:
        raise FileError(
            experiment.source.where("needs", "hosts"),
            f"jobs {' and '.join(experiment.jobs)} use {len(users)} hosts together (with spares), "
            f"more than the {experiment.needs.hosts} declared in needs.hosts",
            hint="raise needs.hosts, or use fewer ranks or spares",
        )
    return Placements({name: placed[name] for name in experiment.jobs})


def _placed(
    experiment: Experiment,
    lab: Lab,
    name: str,
    suited: Sequence[str],
    users: Users,
    slots: Slots,
    beside: Mapping[str, Placement],
) -> Placement:
    """Return the placement of one job beside others, which have the hosts in `users`."""
    spec, free = experiment.jobs[name], [host for host in suited if host not in users]
    # A schedule of a million ranks fills the memory: that there are so many hosts comes first.
    each = spec.ranks_per_host
    _choose_hosts(experiment, lab, name, getattr(spec.options, "ranks", 1) // each, free, users)
    job: Job = kind("jobs", spec.kind).load()(spec.options)
    _check_ranks_per_host(experiment, name, job)
    count = job.ranks // each
    hosts = _choose_hosts(experiment, lab, name, count + job.spares, free, users)
    wanted = experiment.needs.fabric
    if wanted == "packet" or (wanted == "any" and not lab.switches):
        ranks = slots.take(host for host in hosts[:count] for _ in range(each))
        check_packet_ports(experiment, lab, name, hosts)
        check_spares_in_use(experiment, name, hosts)
        check_packet_job(experiment, name, job)
        check_two_rings(experiment, name, {})
        spares = slots.take(hosts[count:])
        return Placement(name, job, spec.kind, ranks, spares, frozenset(), "packet")
    if len({*hosts}) < len(hosts):
        message = "a spare on a host in use needs a packet switch"
        hint = "list another host, or use a lab with a packet switch"
        raise FileError(experiment.source.where("jobs", name, "hosts"), message, hint=hint)
    if isinstance(job, FabricDependentJob):
        try:
            job = job.on_circuits()
        except ValueError as error:
            raise FileError(experiment.source.where("jobs", name), str(error)) from None
    others = merged({other: one.circuits for other, one in beside.items()})
    if lab.rack is not None and spec.hosts is None:
        hosts = hosts_in_rack(experiment, lab, name, _of_hosts(job, each), free, others)
    return _on_circuits(experiment, lab, name, job, hosts, slots, others)


def _on_circuits(
    experiment: Experiment,
    lab: Lab,
    name: str,
    job: Job,
    hosts: tuple[str, ...],
    slots: Slots,
    others: Matching,
) -> Placement:
    """Return the placement of a job whose hosts are joined by circuits, beside those of others."""
    spec, each = experiment.jobs[name], experiment.jobs[name].ranks_per_host
    of_hosts = _of_hosts(job, each)
    count = of_hosts.ranks
    ranks = slots.take(host for host in hosts[:count] for _ in range(each))
    all_ranks = each if isinstance(job, ReplicatedJob) else 1  # a host is replaced with all of them
    spares = slots.take(host for host in hosts[count:] for _ in range(all_ranks))
    if isinstance(job, RailsJob):
        standing = plan_rails(experiment, lab, name, hosts, job, job.groups)
        return Placement(name, job, spec.kind, ranks, spares, standing)
    if each > 1:
        _check_shared_circuits(experiment, name, job)
    found = plan_circuits(experiment, lab, name, hosts, of_hosts, others)
    check_two_rings(experiment, name, found.ring_ports)
    return Placement(
        *(name, job, spec.kind, ranks, spares),
        circuits=found.circuits,
        asked=found.asked,
        ring_ports=found.ring_ports,
    )


def _of_hosts(job: Job, each: int) -> Job:
    """Return a job with one rank for each host, as circuits join hosts; ranks follow each other."""
    of_hosts = copy(job)
    of_hosts.ranks = job.ranks // each
    return of_hosts


def _check_ranks_per_host(experiment: Experiment, name: str, job: Job) -> None:
    """Refuse several ranks on a host where they do not fill hosts, or cannot share one."""
    each = experiment.jobs[name].ranks_per_host
    if each == 1:
        return
    where = experiment.source.where("jobs", name, "ranks_per_host")
    if job.ranks % each:
        message = f"{job.ranks} ranks do not fill hosts with {each} ranks each"
        raise FileError(where, message, hint=f"give job {name} a multiple of {each} ranks")
    if isinstance(job, ProgramJob) and not isinstance(job, HostSharingProgram):
        message = f"a {experiment.jobs[name].kind} runs one program on each host"
        raise FileError(where, message, hint="remove `ranks_per_host`")
    for spec in experiment.reacting():
        acts_on = spec.acts_on if spec.job == name else ()
        if "membership" in acts_on and not kind("controllers", spec.kind).recovery.shares_hosts:
            message = f"{spec.kind} replaces one rank, and a host that fails takes {each} with it"
            hint = f"remove `ranks_per_host`, or {spec.kind}"
            raise FileError(experiment.source.where(*spec.steps, "kind"), message, hint=hint)


def _check_shared_circuits(experiment: Experiment, name: str, job: Job) -> None:
    """Refuse what re-points circuits from rank to rank, where several ranks share those of a host.

    That are jobs whose ranks ask for circuits, and controllers of circuits.
    """
    where = experiment.source.where
    if isinstance(job, CircuitRequestingJob):
        message = f"each rank of job {name} asks for circuits of its own, so it needs its own host"
        hint = "remove `ranks_per_host`, or use a lab with a packet switch"
        raise FileError(where("jobs", name, "ranks_per_host"), message, hint=hint)
    for spec in experiment.reacting():
        if spec.job == name and "circuits" in spec.acts_on:
            message = (
                f"{spec.kind} re-points circuits between ranks, and those of job {name} share "
            )
            message += "their host's"
            hint = f"remove `ranks_per_host`, or {spec.kind}"
            raise FileError(where(*spec.steps, "kind"), message, hint=hint)


def _check_needs(experiment: Experiment, lab: Lab) -> None:
    needs, set_aside = experiment.needs, avoided(lab)
    if needs.hosts > len(lab.hosts) - len(set_aside):
        less = f", of which {', '.join(set_aside)} must be avoided" if set_aside else ""
        raise FileError(
            experiment.source.where("needs", "hosts"),
            f"the experiment needs {needs.hosts} hosts and lab {lab.lab} has "
            f"{len(lab.hosts)}{less}",
            hint=str(next(iter(set_aside.values()))) if set_aside else "",
        )
    check_attributes(experiment, lab)
    fabrics = {"circuit": bool(lab.switches), "packet": bool(lab.packet_switches)}
    words = {"circuit": "circuits", "packet": "a packet switch"}
    has = " and ".join(words[fabric] for fabric, there in fabrics.items() if there)
    if not fabrics.get(needs.fabric, bool(has)):
        wanted = "some" if needs.fabric == "any" else f"a {needs.fabric}"
        raise FileError(
            experiment.source.where("needs", "fabric"),
            f"the experiment needs {wanted} fabric and lab {lab.lab} has {has or 'no switch'}",
        )


def _choose_hosts(
    experiment: Experiment, lab: Lab, name: str, count: int, free: Sequence[str], users: Users
) -> tuple[str, ...]:
    """Return so many hosts for a job, the first of those that it names or of those in `free`."""
    named, set_aside = experiment.jobs[name].hosts, avoided(lab)
    for index, host in enumerate(named or ()):
        where = experiment.source.where("jobs", name, "hosts", index)
        if host not in lab.hosts:
            raise FileError(
                where,
                f"{host!r} is not a host of lab {lab.lab}",
                hint=nearest(host, list(lab.hosts)),
            )
        if host in set_aside:
            raise FileError(where, str(set_aside[host]), hint="name another host")
        check_named_host(experiment, lab, name, index, host)
    hosts = tuple(named or free)
    check_shared(experiment, name, (named or ())[:count], users)
    used = len({*hosts[:count]})
    if len(hosts) < count:
        left = f"lab {lab.lab} has {len(hosts)}"
        left += " with the attributes needed" if experiment.needs.attributes else ""
        left += " left beside other jobs" if users else ""
        there = f"job {name} lists {len(hosts)}" if named else left
        raise FileError(
            experiment.source.where("jobs", name, "hosts" if named else "ranks"),
            f"ranks and spares need {count} hosts, and {there}",
        )
    if used > experiment.needs.hosts:
        raise FileError(
            experiment.source.where("needs", "hosts"),
            f"job {name} uses {used} hosts (with spares), more than the "
            f"{experiment.needs.hosts} declared in needs.hosts",
            hint="raise needs.hosts, or use fewer ranks or spares",
        )
    return hosts[:count]
