"""Topologies by name: the links that join the ranks of a job, as one or several matchings.

Each is a frozen dataclass of options. Its `matchings(ranks, ports)` returns links between ports of
ranks, every port in at most one link of a matching. A static topology has one matching; several
matchings are lit one after the other, by a schedule's rounds or by time slots.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol

from testbed.fabric.links import Link, Links, bundle, links_between, renumbered, side_by_side
from testbed.fabric.matchings import Pair, round_robin


class Topology(Protocol):
    """The interface of topologies; an instance holds the options.

    Making one with impossible options raises ValueError.
    """

    def matchings(self, ranks: int, ports: int) -> tuple[Links, ...]:
        """Return the links of each matching, for `ranks` ranks with `ports` ports each.

        Raise ValueError, in one sentence, where ranks or ports do not allow this topology.
        """


def _check_positive(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, not {count}")


@dataclass(frozen=True, slots=True)
class Ring:
    """Join each rank with the next, and the last with the first.

    The last `fibres` ports of a rank lead to the first ones of its successor. Two ranks are joined
    twice, or once where their ports suffice for one link only.
    """

    fibres: int = 1

    def __post_init__(self) -> None:
        """Refuse links of no fibre."""
        _check_positive(fibres=self.fibres)

    def matchings(self, ranks: int, ports: int) -> tuple[Links, ...]:
        """Return the ring as one matching."""
        _check_positive(ranks=ranks)
        if ranks == 2 and self.fibres <= ports < 2 * self.fibres:
            return Pairs(fibres=self.fibres).matchings(ranks, ports)
        needed = 2 * self.fibres if ranks > 1 else 0
        if ports < needed:
            raise ValueError(
                f"a ring of {ranks} ranks with {_count(self.fibres, 'fibre')} to each neighbour "
                f"takes {_count(needed, 'port')} on each rank, not {ports}: with fewer, only a "
                "matching per round can join them"
            )
        return (frozenset(_torus_links((ranks,), self.fibres, ports)),)


RING = Ring()
"""The ring with one fibre to each neighbour."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Join the ranks in pairs: 0 with 1 and 2 with 3, or in general i with i + `stride`.

    A stride of 2 joins 0 with 2, 1 with 3, 4 with 6 and 5 with 7: the partners of recursive
    halving and doubling at that distance, and the second pairing of four servers in Opus
    (arXiv 2507.08119). The first `fibres` ports of the two are joined.
    """

    stride: int = 1
    fibres: int = 1

    def __post_init__(self) -> None:
        """Refuse a stride of nothing, and links of no fibre."""
        _check_positive(stride=self.stride, fibres=self.fibres)

    def matchings(self, ranks: int, ports: int) -> tuple[Links, ...]:
        """Return the pairs as one matching."""
        _check_positive(ranks=ranks)
        if ranks % (2 * self.stride):
            raise ValueError(
                f"pairs at a stride of {self.stride} take a multiple of {2 * self.stride} ranks, "
                f"not {ranks}"
            )
        _check_ports(f"a pair with {_count(self.fibres, 'fibre')}", self.fibres, ports)
        lower = (rank for rank in range(ranks) if not rank // self.stride % 2)
        pairs = ((rank, rank + self.stride) for rank in lower)
        return (frozenset(_bundles(pairs, 0, self.fibres)),)


@dataclass(frozen=True, slots=True)
class Torus:
    """Join the neighbours of a torus of any number of dimensions; the last one varies fastest.

    Along an axis of two ranks each is the other's neighbour on both sides; an axis of one rank has
    no links and takes no ports. Of the axes with links, number j from 0, ports j·`fibres` and
    following lead to the predecessor, and those that are as far from the last port to the
    successor: a ring is a torus of one dimension.
    """

    shape: tuple[int, ...]
    fibres: int = 1

    def __post_init__(self) -> None:
        """Refuse axes without ranks, and links of no fibre."""
        if not self.shape or min(self.shape) < 1:
            text = _by(self.shape) or "no axis"
            raise ValueError(f"a torus has axes of at least one rank each, not {text}")
        _check_positive(fibres=self.fibres)

    def matchings(self, ranks: int, ports: int) -> tuple[Links, ...]:
        """Return the torus as one matching."""
        text = _by(self.shape)
        _check_positive(ranks=ranks)
        if math.prod(self.shape) != ranks:
            raise ValueError(f"a torus of {text} has {math.prod(self.shape)} ranks, not {ranks}")
        needed = 2 * self.fibres * sum(size > 1 for size in self.shape)
        _check_ports(f"a torus of {text} with {_count(self.fibres, 'fibre')} a link", needed, ports)
        return (frozenset(_torus_links(self.shape, self.fibres, ports)),)


@dataclass(frozen=True, slots=True)
class AllToAll:
    """Join every two ranks exactly once, in as few matchings as their ports allow.

    The pairs of each round are those of `round_robin`; of an odd number of ranks one pauses in each
    round. A matching holds as many rounds as there are ports for, one behind each `fibres` ports,
    so that the switch behind one port has every so-many-th round, as in RotorNet (SIGCOMM 2017).
    With a port for every peer there is one matching: all are joined at once.
    """

    fibres: int = 1

    def __post_init__(self) -> None:
        """Refuse links of no fibre."""
        _check_positive(fibres=self.fibres)

    def matchings(self, ranks: int, ports: int) -> tuple[Links, ...]:
        """Return the matchings in which all ranks meet."""
        _check_positive(ranks=ranks)
        _check_ports(f"all-to-all with {_count(self.fibres, 'fibre')} a pair", self.fibres, ports)
        if ranks == 1:
            return (frozenset(),)
        rounds = round_robin(ranks + ranks % 2)
        at_once = ports // self.fibres
        return tuple(
            self._matching(rounds[first : first + at_once], ranks)
            for first in range(0, len(rounds), at_once)
        )

    def _matching(self, rounds: Sequence[Iterable[Pair]], ranks: int) -> Links:
        """Return the links of some rounds, those of each over ports of its own."""
        return frozenset(
            each
            for number, pairs in enumerate(rounds)
            for each in _bundles(
                (pair for pair in pairs if pair[1] < ranks), number * self.fibres, self.fibres
            )
        )


@dataclass(frozen=True, slots=True)
class Rails:
    """Join the ranks of each rail by the topology `each`, with no links between rails.

    A rail is all ranks with one local index, that is their number modulo `ranks_per_host`; between
    the ranks of a host there is no light (Opus, arXiv 2507.08119).
    """

    ranks_per_host: int
    each: Topology = RING

    def __post_init__(self) -> None:
        """Refuse hosts without ranks."""
        _check_positive(ranks_per_host=self.ranks_per_host)

    def matchings(self, ranks: int, ports: int) -> tuple[Links, ...]:
        """Return the matchings of all rails; the n-th matchings of all rails are one."""
        _check_positive(ranks=ranks)
        if ranks % self.ranks_per_host:
            raise ValueError(f"{ranks} ranks do not fill hosts of {self.ranks_per_host}")
        inside = self.each.matchings(ranks // self.ranks_per_host, ports)
        rails = [range(local, ranks, self.ranks_per_host) for local in range(self.ranks_per_host)]
        return side_by_side([renumbered(links, rail) for links in inside] for rail in rails)


@dataclass(frozen=True, slots=True)
class Graph:
    """Join the pairs of ranks that a file lists; a pair listed twice has two links.

    Each link takes the lowest port that its ranks have left, in the order of the list.
    """

    links: tuple[Pair, ...]

    def matchings(self, ranks: int, ports: int) -> tuple[Links, ...]:
        """Return the graph as one matching."""
        return TimeSlots((self.links,)).matchings(ranks, ports)


@dataclass(frozen=True, slots=True)
class TimeSlots:
    """Join the pairs of ranks that a file lists for every time slot.

    Within a slot, ports are taken as in `Graph`.
    """

    slots: tuple[tuple[Pair, ...], ...]

    def __post_init__(self) -> None:
        """Refuse a table without slots."""
        if not self.slots:
            raise ValueError("a table of time slots must have at least one slot")

    def matchings(self, ranks: int, ports: int) -> tuple[Links, ...]:
        """Return the links of each time slot as a matching."""
        _check_positive(ranks=ranks)
        found = []
        for number, pairs in enumerate(self.slots):
            try:
                found.append(links_between(pairs, ranks, ports))
            except ValueError as error:
                where = f"in time slot {number}, " if len(self.slots) > 1 else ""
                raise ValueError(f"{where}{error}") from None
        return tuple(found)


TOPOLOGIES: Mapping[str, type[Topology]] = {
    "all-to-all": AllToAll,
    "graph": Graph,
    "pairs": Pairs,
    "rails": Rails,
    "ring": Ring,
    "time-slots": TimeSlots,
    "torus": Torus,
}
"""Every topology by the name that files give it."""


def name_of(topology: Topology) -> str:
    """Return the name that files give a topology; of one that files cannot name, its class."""
    own = type(topology)
    return next((name for name, kind in TOPOLOGIES.items() if kind is own), own.__name__)


def summary(name: str) -> str:
    """Return in one sentence which ranks a topology joins."""
    return (TOPOLOGIES[name].__doc__ or "").partition("\n")[0]


def _torus_links(shape: tuple[int, ...], fibres: int, ports: int) -> Iterator[Link]:
    """Yield the links of a torus; neighbours along an axis differ by its stride or wrap round."""
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    for order, axis in enumerate(axes):
        predecessor = order * fibres
        successor = ports - predecessor - fibres
        stride = math.prod(shape[axis + 1 :])
        for rank, at in enumerate(product(*map(range, shape))):
            wraps = at[axis] == shape[axis] - 1
            beyond = rank + stride - wraps * stride * shape[axis]
            yield from bundle((rank, successor), (beyond, predecessor), fibres)


def _bundles(pairs: Iterable[Pair], port: int, fibres: int) -> Iterator[Link]:
    """Yield the links that join each pair over `fibres` ports from `port` on."""
    for a, b in pairs:
        yield from bundle((a, port), (b, port), fibres)


def _by(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))


def _check_ports(what: str, needed: int, ports: int) -> None:
    if ports < needed:
        raise ValueError(f"{what} takes {_count(needed, 'port')} on each rank, not {ports}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
