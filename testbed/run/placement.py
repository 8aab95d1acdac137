"""Who is which rank: a job's hosts in a lab, and the circuits between them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

from testbed.errors import FileError
from testbed.fabric.circuits import Circuit, Matching, cross_connects
from testbed.fabric.topology import ring, ring_link
from testbed.jobs.words import Job
from testbed.plugins import kind, nearest
from testbed.schema import Experiment, Lab


@dataclass(frozen=True, slots=True)
class Placement:
    """A job on hosts: the ranks' hosts in rank order, then the spares."""

    name: str
    job: Job
    kind: str
    hosts: tuple[str, ...]
    spares: tuple[str, ...]
    circuits: Matching

    @property
    def used(self) -> tuple[str, ...]:
        """Return the hosts of ranks and spares."""
        return (*self.hosts, *self.spares)


def place(experiment: Experiment, lab: Lab) -> Placement:
    """Return who is which rank of the experiment's job, and the circuits between them.

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
    job: Job = kind("jobs", spec.kind).load()(spec.options)
    hosts = _choose_hosts(experiment, lab, name, job.ranks + job.spares)
    ranks, spares = hosts[: job.ranks], hosts[job.ranks :]
    circuits = _circuits(experiment, lab, name, hosts, job)
    return Placement(name, job, spec.kind, ranks, spares, circuits)


def _check_needs(experiment: Experiment, lab: Lab) -> None:
    needs = experiment.needs
    if needs.hosts > len(lab.hosts):
        raise FileError(
            experiment.source.where("needs", "hosts"),
            f"the experiment needs {needs.hosts} hosts and lab {lab.lab} has {len(lab.hosts)}",
        )
    if needs.fabric == "packet" or (needs.fabric == "circuit" and not lab.switches):
        raise FileError(
            experiment.source.where("needs", "fabric"),
            f"the experiment needs a {needs.fabric} fabric and lab {lab.lab} has "
            f"{'circuits' if lab.switches else 'no switch'}",
        )


def _choose_hosts(experiment: Experiment, lab: Lab, name: str, count: int) -> tuple[str, ...]:
    named = experiment.jobs[name].hosts
    for index, host in enumerate(named or ()):
        if host not in lab.hosts:
            raise FileError(
                experiment.source.where("jobs", name, "hosts", index),
                f"{host!r} is no host of lab {lab.lab}",
                hint=nearest(host, list(lab.hosts)),
            )
    hosts = tuple(named or lab.hosts)
    if len(hosts) < count:
        raise FileError(
            experiment.source.where("jobs", name, "hosts" if named else "ranks"),
            f"ranks and spares need {count} hosts, and there are {len(hosts)}",
        )
    if count > experiment.needs.hosts:
        raise FileError(
            experiment.source.where("needs", "hosts"),
            f"the experiment says it needs {experiment.needs.hosts} hosts, and job {name} "
            f"uses {count}",
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
