"""Places of ranks: the slots of hosts, in each of which one process runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from testbed.fabric.circuits import HostPort
from testbed.fabric.fibre_plant import own_ports, rank_ports
from testbed.fabric.topology import Ports
from testbed.jobs.contracts import Job, RailsJob


class Place(NamedTuple):
    """A slot of a host, in which the process of one rank runs."""

    host: str
    slot: int = 0


def ports_of_ranks(
    job: Job, hosts: Sequence[str], ports: Ports
) -> tuple[tuple[HostPort, ...], ...]:
    """Return the fabric ports of each rank, whose hosts are given in rank order.

    On rails each rank of a host has ports of its own; elsewhere all of them use all of its ports.
    """
    if not isinstance(job, RailsJob):
        return rank_ports(hosts, ports)
    each = Counter(hosts).most_common(1)[0][1]
    return own_ports(hosts[::each], ports, each)


class Slots:
    """The slots of hosts that are taken. Jobs that share hosts take theirs from the same one."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def take(self, hosts: Iterable[str]) -> tuple[Place, ...]:
        """Return a free slot on each host, in order; a host may be named again."""
        return tuple(self._next(host) for host in hosts)

    def _next(self, host: str) -> Place:
        self._taken[host] += 1
        return Place(host, self._taken[host] - 1)


@dataclass(slots=True)
class Membership:
    """The places of a job's ranks, in rank order, and of its spares."""

    places: tuple[Place, ...]
    spares: tuple[Place, ...] = ()
    all: tuple[Place, ...] = ()
    """All places that the job has, whoever runs there."""
    _ranks: tuple[tuple[Place, ...], dict[Place, int]] = ((), {})
    """The ranks of these places; `places` may have changed since."""

    def __post_init__(self) -> None:
        """Note all places that the job has."""
        self.all = (*self.places, *self.spares)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts of the ranks, in rank order."""
        return tuple(place.host for place in self.places)

    def rank_of(self, place: Place) -> int | None:
        """Return the rank that runs in a place, or None for a spare."""
        if self._ranks[0] is not self.places:
            self._ranks = self.places, {place: rank for rank, place in enumerate(self.places)}
        return self._ranks[1].get(place)

    def at_borders(self) -> tuple[int, ...]:
        """Return the ranks whose next rank is on another host; all of them on a single host."""
        after = (*self.hosts[1:], *self.hosts[:1])
        apart = (
            r for r, (host, far) in enumerate(zip(self.hosts, after, strict=True)) if host != far
        )
        return tuple(apart) or tuple(range(len(self.places)))

    def ranks_on(self, host: str) -> tuple[int, ...]:
        """Return the ranks that run on a host."""
        return tuple(rank for rank, place in enumerate(self.places) if place.host == host)

    def replace(self, rank: int, host: str) -> Place:
        """Give a rank the place of a spare on a host, and return that."""
        place = next(spare for spare in self.spares if spare.host == host)
        self.places = (*self.places[:rank], place, *self.places[rank + 1 :])
        self.spares = tuple(spare for spare in self.spares if spare != place)
        return place

    def move_to(self, hosts: Sequence[str]) -> None:
        """Give the ranks these hosts, in rank order; their number may be another than before.

        A rank whose host stays keeps its place; any other takes one that no rank keeps.
        """
        stay = {r: p for r, p in enumerate(self.places[: len(hosts)]) if p.host == hosts[r]}
        for rank, host in enumerate(hosts):
            if rank not in stay:
                free = (place for place in self.all if place not in stay.values())
                stay[rank] = next(place for place in free if place.host == host)
        self.places = tuple(stay[rank] for rank in range(len(hosts)))
        self.spares = tuple(spare for spare in self.spares if spare not in self.places)

    def restore_spares(self) -> None:
        """Take every place without a rank for a spare again, also those that have failed."""
        self.spares = tuple(place for place in self.all if place not in self.places)
