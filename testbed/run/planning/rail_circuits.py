"""The circuits that a job on rails begins with. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from testbed.errors import FileError
from testbed.fabric.circuits import Matching
from testbed.fabric.fibre_plant import map_links, own_ports
from testbed.fabric.links import Links
from testbed.jobs.contracts import Job
from testbed.rails.rail import neighbours
from testbed.run.planning.job_circuits import circuits_cannot_be_made
from testbed.schema import Experiment, Lab


def plan_rails(
    experiment: Experiment,
    lab: Lab,
    name: str,
    hosts: Sequence[str],
    job: Job,
    groups: Mapping[str, Sequence[int]],
) -> Matching:
    """Return the circuits that a job on rails begins with: those of its topology, if it has any.

    Refuse hosts whose ranks have no fabric ports of their own, ranks without a rail, circuits that
    the fibres cannot make, and those that do not join the ranks of every group. Which circuits the
    groups need otherwise is known to the controller of the rails, which is checked itself.
    """
    where = experiment.source.where
    each = experiment.jobs[name].ranks_per_host
    try:
        ports = own_ports(hosts, lab.ports(), each)
    except ValueError as error:
        raise FileError(
            where("jobs", name), f"rails join ranks by their own ports: {error}"
        ) from None
    if bare := [hosts[rank // each] for rank, own in enumerate(ports) if not own]:
        message = f"{bare[0]} of lab {lab.lab} has no fabric port for its ranks"
        raise FileError(where("jobs", name), message, hint="use a lab whose hosts are on rails")
    if job.topology is None:
        return frozenset()
    try:
        first, *others = job.topology.matchings(job.ranks, min(map(len, ports)))
        if others:
            raise ValueError(f"it takes {1 + len(others)} matchings, one after the other")
        circuits = map_links(first, ports[: job.ranks], lab.wiring())
        _check_groups(groups, first, [hosts[rank // each] for rank in range(job.ranks)])
        return circuits
    except ValueError as error:
        raise circuits_cannot_be_made(experiment, lab, name, job.topology, error) from None


def _check_groups(groups: Mapping[str, Sequence[int]], links: Links, hosts: Sequence[str]) -> None:
    """Refuse links that do not join the neighbours in every group of several hosts; ValueError."""
    joined = {frozenset(rank for rank, _ in ends) for ends in links}
    for group, ranks in groups.items():
        apart = sorted(map(sorted, neighbours(ranks) - joined))
        if apart and len({hosts[rank] for rank in ranks}) > 1:
            a, b = apart[0]
            raise ValueError(f"it does not join rank {a} with rank {b}, of group {group}")
