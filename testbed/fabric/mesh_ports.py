"""Choose the external ports of a mesh that hosts use, so that all matchings can be routed.

Not every choice works: ports near each other, or in a corner, share waveguides that all their light
must use, and then no matching can be routed. The search begins with ports spread evenly around the
rim, routes a few matchings, and moves ports next to where routes conflicted; it ends when every
matching is routed.

Which host has which port matters as much. In a round robin of hosts in their order around the rim,
the pairs of a matching are parallel chords, and in some matchings all of them lead across the same
row of hexagons, where w hexagons have 2w + 2 waveguides. All pairs meet once whoever has which
port, so the length of all routes together stays: with hosts at ports drawn at random each matching
has its share of it, in all directions, and a mesh can be smaller. Light crosses light for nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from testbed.fabric.matchings import Matching, both_directions, round_robin
from testbed.fabric.mesh import Mesh, PortKind, with_ports
from testbed.fabric.mesh_graph import Graph, Lanes
from testbed.fabric.mesh_router import Attempt, Demand, Router

_SAMPLE = 2
"""Matchings by which a choice of ports is judged before all of them are routed."""
_NEAREST = 3
"""How many of the ports next to a contested joint may be moved."""
_PUSHED = 6
"""How many neighbours one port may push along the rim."""
_STALE = 150
"""Moves without progress after which the search begins anew, with other ports for the hosts."""
_IN_ORDER = 5
"""Moves that are tried with hosts in their order around the rim, at first."""
_LOST = 16
"""Matchings without routes after which the others are not tried with the same ports."""


@dataclass(frozen=True, slots=True)
class Routed:
    """A choice of ports, and the routes of each matching; None for a matching not routed."""

    mesh: Mesh
    rim: tuple[int, ...]
    """The ports in use, as they are numbered around the rim, in the order of the hosts."""
    matchings: tuple[Matching, ...]
    routes: tuple[Mapping[int, Lanes] | None, ...]
    searches: int

    @property
    def count(self) -> int:
        """Return how many matchings were routed."""
        return sum(routes is not None for routes in self.routes)

    @property
    def is_whole(self) -> bool:
        """Tell whether every matching was routed."""
        return self.count == len(self.matchings)


def route_all(
    mesh: Mesh,
    rim: Sequence[int],
    kind: PortKind,
    *,
    orders: int = 1,
    per_route: int = 8,
    most_failed: int | None = None,
) -> Routed:
    """Return routes for the matchings of a round robin between ports, where they are found.

    `rim` numbers ports around the mesh. With kind `tx-rx` each host has two neighbours of these,
    the first to send; both directions of a pair are then routes of one matching. Of `orders`
    attempts, each with `per_route` searches per route, the one with the least total loss is taken.
    After `most_failed` matchings without routes the others are not tried.
    """
    table = _Table(mesh, rim, kind)
    found: list[Attempt] = []
    for matching in table.matchings:
        if most_failed is not None and _failed(found) >= most_failed:
            found.append(Attempt(None, 0))
        else:
            found.append(table.best(matching, orders, per_route))
    routes = tuple(attempt.routes for attempt in found)
    searches = sum(attempt.searches for attempt in found)
    return Routed(table.mesh, tuple(rim), table.matchings, routes, searches)


def _failed(attempts: Iterable[Attempt]) -> int:
    return sum(attempt.routes is None for attempt in attempts)


def choose_ports(
    mesh: Mesh,
    hosts: int,
    kind: PortKind,
    *,
    seed: int = 0,
    limit: int = 200_000,
    stop: Callable[[], bool] = lambda: False,
) -> Routed:
    """Return the ports for `hosts` hosts with which the search routed the most matchings.

    The search ends when all are routed, after `limit` searches for a route, or when `stop()` is
    true. Raise ValueError when the mesh has too few external ports, or for an odd number of hosts.
    """
    search = _PortSearch(mesh, hosts, kind, seed)
    while not search.best.is_whole and search.spent < limit and not stop():
        search.step()
    return search.best


def ports_needed(hosts: int, kind: PortKind) -> int:
    """Return how many external ports a number of hosts need."""
    return hosts if kind == "bidi" else 2 * hosts


class _Table:
    """All matchings between some ports of a mesh, ready to be routed."""

    def __init__(self, mesh: Mesh, rim: Sequence[int], kind: PortKind) -> None:
        if kind == "bidi":
            hosts, self.mesh = len(rim), with_ports(mesh, bidi=rim)
        else:
            hosts, self.mesh = len(rim) // 2, with_ports(mesh, rim[::2], rim[1::2])
        pairs = round_robin(hosts)
        self.matchings = pairs if kind == "bidi" else tuple(map(both_directions, pairs))
        self._router = Router(Graph.of(self.mesh))

    def attempt(self, matching: Matching, per_route: int, seed: int = 0) -> Attempt:
        """Try to route one matching."""
        demands = self._demands(matching)
        return self._router.route(demands, per_route * len(demands), seed=seed)

    def best(self, matching: Matching, orders: int, per_route: int) -> Attempt:
        """Return the routing of least total loss among several seeds, after shortening."""
        demands = self._demands(matching)
        searches, found = 0, Attempt(None, 0)
        least = float("inf")
        for seed in range(orders):
            attempt = self.attempt(matching, per_route, seed)
            searches += attempt.searches
            if attempt.routes is None:
                continue
            attempt = self._router.shorten(demands, attempt.routes)
            searches += attempt.searches
            total = self.loss(attempt.routes or {})
            if total < least:
                least, found = total, attempt
        found.searches = searches
        return found

    def loss(self, routes: Mapping[int, Lanes]) -> float:
        """Return the total loss of routes."""
        return sum(map(self._router.graph.loss_of, routes.values()))

    def distance(self, joint: int, port: int) -> float:
        """Return the distance between a joint and a port of the rim, in the nearer direction."""
        to_port = self._router.graph.distances(frozenset({self._joint(port)}))
        return min(to_port[2 * joint], to_port[2 * joint + 1])

    def _joint(self, port: int) -> int:
        return self._router.graph.number[self.mesh.rim[port]]

    def _demands(self, matching: Matching) -> dict[int, Demand]:
        return demands(self.mesh, self._router.graph, matching)


def demands(mesh: Mesh, graph: Graph, matching: Matching) -> dict[int, Demand]:
    """Return the demand of each pair of hosts in a matching, in order."""
    return {
        number: Demand(graph.number[mesh.ingress[a]], frozenset({graph.number[mesh.egress[b]]}))
        for number, (a, b) in enumerate(matching)
    }


class _PortSearch:
    """Moves ports along the rim until all matchings are routed; seeded."""

    def __init__(self, mesh: Mesh, hosts: int, kind: PortKind, seed: int) -> None:
        self._mesh, self._kind = mesh, kind
        self._used = ports_needed(hosts, kind)
        self._size = len(mesh.rim)
        if self._used > self._size:
            raise ValueError(f"the mesh has {self._size} external ports, {self._used} are needed")
        self._chance = random.Random(seed)
        self._rim: list[int]
        """The ports in use, around the rim."""
        self._order = list(range(hosts))
        """Which host has the first, the second … of these, or of their pairs."""
        self._moves = 0
        self._sample: tuple[Matching, ...]
        self._score: tuple[int, int]
        self._contested: Counter[int]
        self._stale: int
        self.spent = 0
        self.best = self._start(0.0)

    def step(self) -> None:
        """Move one port; keep the move unless it increases the number of contested joints."""
        self._moves += 1
        moved = self._moved()
        if moved is not None:
            score, contested, table = self._judged(moved, self._sample)
            if score <= self._score:
                self._stale = 0 if score < self._score else self._stale + 1
                self._rim, self._score, self._contested = moved, score, contested
                self._table = table
        self._stale += 1
        found = None
        if self._score[0] == 0:
            found = self._try_all()
        elif self._stale > _STALE or self._moves == _IN_ORDER:
            self._chance.shuffle(self._order)
            found = self._start(self._chance.random())
        if found is not None and found.count > self.best.count:
            self.best = found

    def _start(self, offset: float) -> Routed:
        """Spread the ports evenly around the rim, from somewhere on."""
        step = self._size / self._used
        self._rim = sorted(int((number + offset) * step) for number in range(self._used))
        self._stale = 0
        return self._try_all()

    def _try_all(self) -> Routed:
        """Route all matchings of the present ports; go on with a sample of those that failed."""
        found = route_all(self._mesh, self._of_hosts(self._rim), self._kind, most_failed=_LOST)
        self.spent += found.searches
        failed = [m for m, r in zip(found.matchings, found.routes, strict=True) if r is None]
        some = self._chance.sample(failed, min(_SAMPLE, len(failed)))
        others = self._chance.sample(found.matchings, min(2, len(found.matchings)))
        self._sample = tuple(dict.fromkeys([*some, *others]))
        self._score, self._contested, self._table = self._judged(self._rim, self._sample)
        return found

    def _judged(
        self, rim: Sequence[int], sample: Iterable[Matching]
    ) -> tuple[tuple[int, int], Counter[int], _Table]:
        """Return how many matchings failed and what work it took, and where routes met."""
        table = _Table(self._mesh, self._of_hosts(rim), self._kind)
        failed = searches = 0
        contested: Counter[int] = Counter()
        for matching in sample:
            attempt = table.attempt(matching, per_route=4)
            searches += attempt.searches
            if attempt.routes is None:
                failed += 1
                contested += attempt.contested
        self.spent += searches
        return (failed, searches), contested, table

    def _of_hosts(self, rim: Sequence[int]) -> list[int]:
        """Return ports around the rim in the order of the hosts."""
        each = self._used // len(self._order)
        return [rim[each * place + n] for place in self._order for n in range(each)]

    def _moved(self) -> list[int] | None:
        """Return the ports with one moved, pushing its neighbours; None where that takes many."""
        candidates = self._rim
        if self._contested:
            joints, times = zip(*self._contested.items(), strict=True)
            (hot,) = self._chance.choices(joints, [count * count for count in times])
            near = sorted(self._rim, key=lambda port: self._table.distance(hot, port))
            candidates = near[:_NEAREST]
        first = self._chance.choice(candidates)
        way = self._chance.choice((1, -1))
        for pushed in range(1, _PUSHED + 2):
            free = (first + way * pushed) % self._size
            if free not in self._rim:
                return sorted({*self._rim, free} - {first})
        return None
