"""Placement of a job: the hosts of its ranks in a lab, and the circuits between them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

from testbed.errors import FileError
from testbed.fabric.circuits import Circuit, HostPort, Matching, cross_connects
from testbed.fabric.topology import between_ranks, ring, ring_link
from testbed.jobs.contracts import CircuitRequestingJob, FabricDependentJob, Job
from testbed.plugins import kind, nearest
from testbed.schema import Experiment, FabricKind, Lab, avoided


@dataclass(frozen=True, slots=True)
class Placement:
    """The hosts of a job: those of ranks in rank order, then the spares, and their circuits."""

    name: str
    job: Job
    kind: str
    hosts: tuple[str, ...]
    spares: tuple[str, ...]
    circuits: Matching
    fabric: FabricKind = "circuit"
    asked: tuple[Matching, ...] = ()
    """All circuits that the ranks will ask for while they run, by number."""

    def ports(self, lab: Lab) -> tuple[HostPort, ...]:
        """Return the fabric ports that the hosts of the job use."""
        return tuple(
            HostPort(host, port)
            for host in self.used
            for port in lab.hosts[host].ports_on(self.fabric)
        )

    @property
    def used(self) -> tuple[str, ...]:
        """Return the hosts of ranks and spares."""
        return (*self.hosts, *self.spares)


def place(experiment: Experiment, lab: Lab) -> Placement:
    """Return the hosts of the experiment's job in rank order, and the circuits between them.

    Raise FileError where the lab lacks hosts, ports or fibres for it.
    """
    _check_needs(experiment, lab)
    if len(experiment.jobs) > 1:
        second = list(experiment.jobs)[1]
        raise FileError(
            experiment.source.where("jobs", second),
            "a second job in one experiment cannot be run yet",
            hint="give each job an experiment of its own",
        )
    name, spec = next(iter(experiment.jobs.items()))
    # A schedule of a million ranks fills the memory: that there are so many hosts comes first.
    _choose_hosts(experiment, lab, name, getattr(spec.options, "ranks", 1))
    job: Job = kind("jobs", spec.kind).load()(spec.options)
    hosts = _choose_hosts(experiment, lab, name, job.ranks + job.spares)
    ranks, spares = hosts[: job.ranks], hosts[job.ranks :]
    wanted = experiment.needs.fabric
    if wanted == "packet" or (wanted == "any" and not lab.switches):
        _check_packet_ports(experiment, lab, name, hosts)
        if getattr(spec.options, "circuits", "auto") != "auto":
            raise FileError(
                experiment.source.where("jobs", name, "circuits"),
                "a packet switch has no circuits to re-point or to forward over",
                hint="remove `circuits`, or use a lab with a circuit switch",
            )
        return Placement(name, job, spec.kind, ranks, spares, frozenset(), "packet")
    if isinstance(job, FabricDependentJob):
        try:
            job = job.on_circuits()
        except ValueError as error:
            raise FileError(experiment.source.where("jobs", name), str(error)) from None
    circuits = _circuits(experiment, lab, name, hosts, job)
    asked = (
        _asked(experiment, lab, name, ranks, job) if isinstance(job, CircuitRequestingJob) else ()
    )
    return Placement(name, job, spec.kind, ranks, spares, circuits, asked=asked)


def _check_packet_ports(
    experiment: Experiment, lab: Lab, name: str, hosts: tuple[str, ...]
) -> None:
    """Refuse hosts that are not all on one packet switch, and what only light can do."""
    where = experiment.source.where("jobs", name)
    plugged = lab.plugged()
    switches = {end.switch for port, end in plugged.items() if port.host in hosts}
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
    why = "a packet switch has none"
    _refuse_other_circuits(experiment, why, or_else=", or use a lab with a circuit switch")


def _refuse_other_circuits(experiment: Experiment, why: str, or_else: str = "") -> None:
    """Refuse controllers that act on circuits."""
    for spec in experiment.reacting():
        if "circuits" in spec.acts_on:
            where = experiment.source.where(*spec.steps, "kind")
            message = f"{spec.kind} re-points circuits, and {why}"
            raise FileError(where, message, hint=f"remove {spec.kind}{or_else}")


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
    fabrics = {"circuit": bool(lab.switches), "packet": bool(lab.packet_switches)}
    words = {"circuit": "circuits", "packet": "a packet switch"}
    has = " and ".join(words[fabric] for fabric, there in fabrics.items() if there)
    if not fabrics.get(needs.fabric, bool(has)):
        wanted = "some" if needs.fabric == "any" else f"a {needs.fabric}"
        raise FileError(
            experiment.source.where("needs", "fabric"),
            f"the experiment needs {wanted} fabric and lab {lab.lab} has {has or 'no switch'}",
        )


def _choose_hosts(experiment: Experiment, lab: Lab, name: str, count: int) -> tuple[str, ...]:
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
    hosts = tuple(named or (host for host in lab.hosts if host not in set_aside))
    if len(hosts) < count:
        there = f"job {name} lists" if named else f"lab {lab.lab} has"
        raise FileError(
            experiment.source.where("jobs", name, "hosts" if named else "ranks"),
            f"ranks and spares need {count} hosts, and {there} {len(hosts)}",
        )
    if count > experiment.needs.hosts:
        raise FileError(
            experiment.source.where("needs", "hosts"),
            f"job {name} uses {count} hosts (with spares), more than the "
            f"{experiment.needs.hosts} declared in needs.hosts",
            hint="raise needs.hosts, or use fewer ranks or spares",
        )
    return hosts[:count]


def _circuits(
    experiment: Experiment, lab: Lab, name: str, hosts: tuple[str, ...], job: Job
) -> Matching:
    """Return the job's first circuits, having checked that every host could take any place.

    A spare takes the victim's place and the victim is a spare then, so any host may come to
    follow any other.
    """
    ports, wiring = lab.ports(), lab.wiring()
    if job.topology == "all":
        raise FileError(
            experiment.source.where("jobs", name, "kind"),
            f"each rank of job {name} sends to all others, which needs a packet switch",
            hint="write `fabric: packet`, and use a lab with a packet switch",
        )
    try:
        for host in hosts:
            if not ports[host]:
                raise ValueError(f"{host} has no fabric port")
        circuits = ring(hosts[: job.ranks], ports)
        cross_connects(circuits, wiring)
        if job.spares:
            ring(hosts, ports)
            links = [ring_link(a, b, ports) for a, b in permutations(hosts, 2)]
            cross_connects([Circuit.between(*link) for link in links], wiring)
    except ValueError as error:
        raise FileError(
            experiment.source.where("jobs", name, "topology"),
            f"the fibres of lab {lab.lab} cannot make this {job.topology}: {error}",
        ) from None
    return circuits


def _asked(
    experiment: Experiment, lab: Lab, name: str, ranks: tuple[str, ...], job: CircuitRequestingJob
) -> tuple[Matching, ...]:
    """Return the circuits that a job's ranks will ask for, having checked that all can be made."""
    _refuse_other_circuits(experiment, f"so do the ranks of job {name}")
    ports, wiring = lab.ports(), lab.wiring()
    try:
        asked = tuple(between_ranks(joints, ranks, ports) for joints in job.circuits)
        cross_connects(frozenset[Circuit]().union(*asked), wiring)
    except ValueError as error:
        raise FileError(
            experiment.source.where("jobs", name, "kind"),
            f"the fibres of lab {lab.lab} cannot make the circuits of job {name}: {error}",
        ) from None
    return asked
