"""The circuits of a job: the links of its topology on the fibres of a lab. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from testbed.errors import FileError
from testbed.fabric.circuits import Matching
from testbed.fabric.fibre_plant import (
    RankPorts,
    circuits_of_links,
    map_links,
    ports_alike,
    rank_ports,
)
from testbed.fabric.interchangeable import check_interchangeable
from testbed.fabric.links import Links, ring_ports
from testbed.fabric.topologies import Topology, name_of
from testbed.fabric.topology import ring
from testbed.jobs.contracts import CircuitRequestingJob, Job
from testbed.run.planning.slices import (
    circuits_of_slice,
    hosts_of_slice,
    rack_of,
    spares_of_slice,
)
from testbed.schema import ControllerSpec, Experiment, Lab


@dataclass(frozen=True, slots=True)
class RingPorts:
    """The names of a host's ports from the previous rank and to the next one."""

    from_previous: str
    to_next: str


@dataclass(frozen=True, slots=True)
class JobCircuits:
    """The circuits of a job, those that its ranks will ask for, and the ring in them."""

    circuits: Matching
    asked: tuple[Matching, ...] = ()
    """By number."""
    ring_ports: Mapping[str, RingPorts] = field(default_factory=dict)
    """By host of a rank or a spare."""


def hosts_in_rack(
    experiment: Experiment,
    lab: Lab,
    name: str,
    job: Job,
    free: Sequence[str],
    others: Matching,
) -> tuple[str, ...]:
    """Return free hosts of a rack for the ranks of a job, and then for its spares.

    Raise FileError where no fibres are left between any, beside circuits of other jobs.
    """
    rack, topology = rack_of(lab), job.topology
    assert rack is not None
    if topology is None:
        return tuple(free[: job.ranks + job.spares])  # it is refused with its reason
    refused: ValueError | None = None
    for able in _by_ports(lab, free, job.ranks + job.spares):
        try:
            matchings, _ = _links(lab, able, job, topology)
            hosts = hosts_of_slice(rack, job.ranks, matchings[0], able, others)
            left = [host for host in able if host not in hosts]
            if not job.spares or not _recovering(experiment, name):
                return (*hosts, *left[: job.spares])
            ports = rank_ports(hosts, ports_alike(hosts, lab.ports()))
            circuits = _made(lab, hosts, job, matchings, ports, others, may_move=True)
            about = rack, hosts, lab.ports(), circuits, left, job.spares, others
            return (*hosts, *spares_of_slice(*about))
        except ValueError as error:
            refused = refused or error
    raise circuits_cannot_be_made(
        experiment, lab, name, topology, refused or ValueError("too few hosts have fabric ports")
    )


def _by_ports(lab: Lab, free: Sequence[str], count: int) -> Iterator[list[str]]:
    """Yield `count` hosts or more that have the most fabric ports, then more hosts with fewer."""
    ports = lab.ports()
    for fewest in sorted({len(ports[host]) for host in free} - {0}, reverse=True):
        able = [host for host in free if len(ports[host]) >= fewest]
        if len(able) >= count:
            yield able


def _recovering(experiment: Experiment, name: str) -> list[ControllerSpec]:
    """Return the controllers that change the membership of a job."""
    return [
        spec for spec in experiment.reacting() if spec.job == name and "membership" in spec.acts_on
    ]


def circuits_cannot_be_made(
    experiment: Experiment, lab: Lab, name: str, topology: Topology, error: ValueError
) -> FileError:
    """Return the error for a topology of a job that a lab cannot make."""
    message = f"the fibres of lab {lab.lab} cannot make this {name_of(topology)}: {error}"
    return FileError(experiment.source.where("jobs", name, "topology"), message)


def plan_circuits(
    experiment: Experiment,
    lab: Lab,
    name: str,
    hosts: tuple[str, ...],
    job: Job,
    others: Matching = frozenset(),
) -> JobCircuits:
    """Return the circuits of a job on hosts, those of its ranks first, beside those of others.

    Raise FileError where the fibres of the lab cannot make them, where a spare could not take the
    place of every rank, and where its ranks or its policy cannot use such a topology.
    """
    where = experiment.source.where
    topology = job.topology
    if topology is None:
        raise FileError(
            where("jobs", name, "kind"),
            f"each rank of job {name} sends to all others, which needs a packet switch",
            hint="write `fabric: packet`, and use a lab with a packet switch",
        )
    called = name_of(topology)
    try:
        matchings, ports = _links(lab, hosts, job, topology)
        recovering = _recovering(experiment, name)
        circuits = _made(lab, hosts, job, matchings, ports, others, may_move=bool(recovering))
        first = ring(hosts[: job.ranks], lab.ports()) if recovering else circuits
    except ValueError as error:
        raise circuits_cannot_be_made(experiment, lab, name, topology, error) from None
    if len(matchings) > 1:
        raise FileError(
            where("jobs", name, "topology"),
            f"this {called} takes {len(matchings)} matchings, one after the other, and nothing in "
            "this experiment re-points them",
            hint="hosts with more fabric ports need fewer matchings; `rotate` goes through several",
        )
    if {circuit.ends for circuit in circuits} != {circuit.ends for circuit in first}:
        raise _is_no_ring(experiment, name, called, recovering[0])
    asked = _asked(experiment, lab, name, hosts[: job.ranks], job)
    return JobCircuits(circuits, asked, _ring_ports(experiment, name, hosts, job, matchings, ports))


def _is_no_ring(
    experiment: Experiment, name: str, called: str, policy: ControllerSpec
) -> FileError:
    return FileError(
        experiment.source.where(*policy.steps, "kind"),
        f"{policy.kind} re-points a ring with one fibre to each neighbour, and the "
        f"{called} of job {name} has other circuits",
        hint="write `topology: ring`, or remove `topology`",
    )


def _links(
    lab: Lab, hosts: Sequence[str], job: Job, topology: Topology
) -> tuple[tuple[Links, ...], RankPorts]:
    """Return the matchings of a topology, and the ports of each host as it numbers them."""
    ports = lab.ports()
    for host in hosts:
        if not ports[host]:
            raise ValueError(f"{host} has no fabric port")
    fewest = min(hosts, key=lambda host: len(ports[host]))
    count = len(ports[fewest])
    try:
        matchings = topology.matchings(job.ranks, count)
    except ValueError as error:
        alike = all(len(ports[host]) == count for host in hosts)
        raise ValueError(str(error) if alike else f"{error}; {fewest} has {count}") from None
    return matchings, rank_ports(hosts, ports_alike(hosts, ports))


def _made(
    lab: Lab,
    hosts: Sequence[str],
    job: Job,
    matchings: Sequence[Links],
    ports: RankPorts,
    others: Matching,
    *,
    may_move: bool,
) -> Matching:
    """Return the circuits of the first matching; on a rack, with the fibres that they pass."""
    if (rack := rack_of(lab)) is None:
        return _mapped(lab, hosts, job, matchings, ports, may_move=may_move)
    direct, ranks = circuits_of_links(matchings[0], ports[: job.ranks]), hosts[: job.ranks]
    return circuits_of_slice(rack, ranks, matchings[0], direct, others)


def _mapped(
    lab: Lab,
    hosts: Sequence[str],
    job: Job,
    matchings: Sequence[Links],
    ports: RankPorts,
    *,
    may_move: bool,
) -> Matching:
    """Return the circuits of the first matching, having checked that all can be made.

    A spare takes the victim's place and the victim is a spare then, so any host may come to have
    any place; and where a controller changes the membership (`may_move`) otherwise, too.
    """
    wiring = lab.wiring()
    mapped = [map_links(links, ports[: job.ranks], wiring) for links in matchings]
    if job.spares or may_move:
        for links in matchings:
            check_interchangeable(links, ports, wiring)
    return mapped[0]


def _ring_ports(
    experiment: Experiment,
    name: str,
    hosts: Sequence[str],
    job: Job,
    matchings: Sequence[Links],
    ports: RankPorts,
) -> dict[str, RingPorts]:
    """Return the ports by which each rank, and each spare as a rank, reaches its neighbours.

    Raise FileError where the ranks are not joined to the ring in which they begin together.
    """
    first_and_last = (0, len(ports[0]) - 1)
    if job.ranks == 1:
        numbers: Sequence[tuple[int, int]] = [first_and_last]
    else:
        try:
            numbers = ring_ports(matchings[0], job.ranks)
        except ValueError as error:
            raise FileError(
                experiment.source.where("jobs", name, "topology"),
                f"the ranks of job {name} begin together in a ring, and {error}",
                hint="join each rank with the next and the last with the first; other links may "
                "be there besides",
            ) from None
    of_spare = numbers[0] if len(set(numbers)) == 1 else first_and_last
    numbers = [*numbers, *[of_spare] * (len(hosts) - job.ranks)]
    return {
        host: RingPorts(own[previous].port, own[following].port)
        for host, own, (previous, following) in zip(hosts, ports, numbers, strict=True)
    }


def check_two_rings(experiment: Experiment, name: str, ring_ports: Mapping[str, RingPorts]) -> None:
    """Refuse a job with two rings whose ranks have no port of their own for each; it gains nothing.

    `ring_ports` are those of its hosts; none on a packet switch.
    """
    spec = experiment.jobs[name]
    if getattr(spec.options, "rings", 1) == 1:
        return
    alone = next((host for host, own in ring_ports.items() if own.from_previous == own.to_next), "")
    why = ""
    if spec.ranks_per_host > 1:
        why = f"{spec.ranks_per_host} ranks of job {name} share the ports of a host"
    elif not ring_ports:
        why = f"on a packet switch both would share one port of each host of job {name}"
    elif alone:
        why = f"{alone} reaches both its neighbours in job {name} by one port"
    if why:
        message = f"two rings take two circuits for each rank, and {why}"
        where = experiment.source.where("jobs", name, "rings")
        raise FileError(where, message, hint="remove `rings`, or join the ranks in a `ring`")


def _asked(
    experiment: Experiment, lab: Lab, name: str, ranks: tuple[str, ...], job: Job
) -> tuple[Matching, ...]:
    """Return the circuits that a job's ranks will ask for, having checked that all can be made.

    Such ranks use two ports, of a host with more of them the first and the last.
    """
    if not isinstance(job, CircuitRequestingJob):
        return ()
    if lab.rack is not None:
        raise FileError(
            experiment.source.where("jobs", name, "kind"),
            f"ranks of job {name} ask for circuits over one switch, and circuits of lab {lab.lab} "
            "pass several",
            hint="use a lab whose hosts are on one switch",
        )
    wiring = lab.wiring()
    try:
        ports = rank_ports(ranks, ports_alike(ranks, lab.ports(), 2))
        return tuple(map_links(links, ports, wiring) for links in job.circuits)
    except ValueError as error:
        raise FileError(
            experiment.source.where("jobs", name, "kind"),
            f"the fibres of lab {lab.lab} cannot make the circuits of job {name}: {error}",
        ) from None


def refuse_other_circuits(experiment: Experiment, name: str, why: str, or_else: str = "") -> None:
    """Refuse controllers of a job's circuits; one that acts on its ranks can do without."""
    for spec in experiment.reacting():
        acts_on = spec.acts_on if spec.job == name else ()
        if "circuits" in acts_on and "membership" not in acts_on:
            where = experiment.source.where(*spec.steps, "kind")
            message = f"{spec.kind} re-points circuits, and {why}"
            raise FileError(where, message, hint=f"remove {spec.kind}{or_else}")
