"""Search for a place of a slice and paths of its bundles: randomised and bounded, no proof.

Slots are placed one after the other, next to those that are placed: each on the free server that is
nearest to its neighbours over links with free fibres, ties at random. Its bundles are routed at
once on shortest paths. An attempt that finds no path for a bundle is abandoned and another begins.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from testbed.rack.slices import Route, Slice
from testbed.rack.torus import SlotGraph, Torus

_FAR = 1 << 20


@dataclass(frozen=True)
class Request:
    """A slice to be placed, and the number of fibres that it may use on each link."""

    torus: Torus
    graph: SlotGraph
    free: frozenset[int]
    room: tuple[int, ...]

    @cached_property
    def peers(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Return each slot's neighbours, one for each bundle, with its number of fibres."""
        peers: list[list[tuple[int, int]]] = [[] for _ in range(self.graph.slots)]
        for (a, b), fibres in self.graph.bundles:
            peers[a].append((b, fibres))
            peers[b].append((a, fibres))
        return tuple(map(tuple, peers))


def search(asked: Request, rng: random.Random, attempts: int) -> Slice | None:
    """Return a place, or None when no attempt found one."""
    for _ in range(attempts):
        found = _Attempt(asked, rng).run()
        if found is not None:
            return found
    return None


class _Attempt:
    """One attempt: what is placed and routed so far."""

    def __init__(self, asked: Request, rng: random.Random) -> None:
        self.asked, self.rng = asked, rng
        self.room = list(asked.room)
        self.near = [rng.sample(near, len(near)) for near in asked.torus.neighbours]
        self.left = set(asked.free)
        self.at: dict[int, int] = {}
        self.paths: dict[tuple[int, int], list[Route]] = {}

    def run(self) -> Slice | None:
        for slot in self._order():
            if not self._place(slot):
                return None
        graph = self.asked.graph
        servers = tuple(self.at[slot] for slot in range(graph.slots))
        return Slice(
            graph.shape, servers, tuple(self.paths[edge].pop() for edge, _ in graph.bundles)
        )

    def _order(self) -> Iterator[int]:
        """Yield the slots from a random one on, each next to as many before it as can be."""
        left = set(range(self.asked.graph.slots))
        slot = self.rng.randrange(len(left))
        while True:
            yield slot
            left.remove(slot)
            if not left:
                return
            slot = max(
                left,
                key=lambda s: (
                    sum(p not in left for p, _ in self.asked.peers[s]),
                    self.rng.random(),
                ),
            )

    def _place(self, slot: int) -> bool:
        peers = self.asked.peers[slot]
        placed = [(self.at[peer], peer, fibres) for peer, fibres in peers if peer in self.at]
        cost = dict.fromkeys(self.left, 0.0)
        for server, _, fibres in placed:
            far = self._distances(server, fibres)
            for candidate in cost:
                cost[candidate] += far[candidate]
        fits = [s for s in cost if cost[s] < _FAR and self._bears(s, peers)]
        if not fits:
            return False
        best = min(fits, key=lambda s: cost[s] + self.rng.random())
        self.at[slot] = best
        self.left.remove(best)
        return all(self._route(slot, peer, fibres) for _, peer, fibres in placed)

    def _bears(self, server: int, peers: Sequence[tuple[int, int]]) -> bool:
        """Return whether the bundles of a slot can leave a server at all."""
        room = sum(self.room[link] for _, link in self.near[server])
        return room >= sum(fibres for _, fibres in peers)

    def _distances(self, start: int, fibres: int) -> list[int]:
        far = [_FAR] * len(self.near)
        far[start] = hops = 0
        edge = [start]
        while edge:
            hops += 1
            beyond = []
            for server in edge:
                for other, link in self.near[server]:
                    if far[other] == _FAR and self.room[link] >= fibres:
                        far[other] = hops
                        beyond.append(other)
            edge = beyond
        return far

    def _route(self, slot: int, peer: int, fibres: int) -> bool:
        """Lead the bundle between two slots over a shortest path with room."""
        start, end = self.at[slot], self.at[peer]
        far = self._distances(end, fibres)
        if far[start] == _FAR:
            return False
        path = [start]
        while path[-1] != end:
            here = path[-1]
            there, link = next(
                (other, link)
                for other, link in self.near[here]
                if far[other] == far[here] - 1 and self.room[link] >= fibres
            )
            self.room[link] -= fibres
            path.append(there)
        first, second = min(slot, peer), max(slot, peer)
        route = tuple(path if slot == first else path[::-1])
        self.paths.setdefault((first, second), []).append(route)
        return True
