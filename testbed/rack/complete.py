"""Search every place of a slice and every path of its bundles: find one, or prove there is none.

A branch is pruned as soon as some set of servers must exchange more fibres with the others than
lead out of it (the cut condition of multicommodity flow). All cuts are checked together, in arrays
with an element for each set. While slots are placed, sets that part the free servers alike are one,
and what a set must exchange is the least over all places of the slots that are still to come. When
all are placed, a bundle that is extended by a link reduces the spare fibres of every set that it
crosses. In racks beyond 16 servers fewer sets are checked: the search stays complete and takes
longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from testbed.rack.cuts import cuts
from testbed.rack.parting import PartingSets, Sides
from testbed.rack.search import Request
from testbed.rack.slices import Slice
from testbed.rack.symmetry import in_connection, slots_below

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MOST_SLOTS = 16
"""Slots up to which every place is searched."""
_UNREACHED = 1 << 20


class GivenUp(Exception):
    """The search reached its limit of nodes without a result."""


def complete_search(asked: Request, nodes: int) -> Slice | None:
    """Return a place, or None as a proof that there is none. Raise GivenUp after `nodes` nodes."""
    return _Tree(asked, nodes).run()


def search_paths(asked: Request, servers: Sequence[int], nodes: int) -> Slice | None:
    """Return the paths of the bundles of slots on given servers; the rest is as for any place."""
    return _Tree(asked, nodes).lead(servers)


class _Tree:
    """The branch that is looked at: where slots are, the paths so far, what links have left."""

    def __init__(self, asked: Request, nodes: int) -> None:
        self.asked, self.nodes = asked, nodes
        self.order = in_connection(asked.graph.slots, asked.graph.edges)
        self.below = slots_below(asked.graph)
        self.separates = cuts(asked.torus).separates
        self.around = [sum(asked.room[link] for _, link in near) for near in asked.torus.neighbours]
        """By server, the fibres of its links."""
        self.far = [_distances(asked, server) for server in range(len(asked.torus.servers))]
        self.room = list(asked.room)
        self.at: dict[int, int] = {}
        self.paths: dict[int, list[int]] = {}
        """By number of the bundle."""

        slack = self.separates(0, 0)  # nothing for any set, and none is separated yet
        for (a, b), room in zip(asked.torus.links, self.room, strict=True):
            slack = slack + room * self.separates(a, b)
        self.slack = slack

    def run(self) -> Slice | None:
        if self.asked.graph.slots > MOST_SLOTS:
            raise GivenUp  # the tables of cuts double with each slot
        self.sets = PartingSets(cuts(self.asked.torus), self.asked, self.slack)
        if not self._place(0, self.sets.begin(), sum(self.room)):
            return None
        return self._found()

    def lead(self, servers: Sequence[int]) -> Slice | None:
        self.at = dict(enumerate(servers))
        return self._found() if self._lead(self._demands(), self._left()) else None

    def _found(self) -> Slice:
        graph = self.asked.graph
        servers = tuple(self.at[slot] for slot in range(graph.slots))
        paths = tuple(tuple(self.paths[number]) for number in range(len(graph.bundles)))
        return Slice(graph.shape, servers, paths)

    def _node(self) -> None:
        self.nodes -= 1
        if self.nodes < 0:
            raise GivenUp

    def _place(self, index: int, side: Sides, fibres: int) -> bool:
        """Place the slots from `index` on; shortest paths so far leave `fibres` on all links."""
        if index == len(self.order):
            return self._lead(self._demands(), self._left())
        slot = self.order[index]
        placed = [(self.at[peer], w) for peer, w in self.asked.peers[slot] if peer in self.at]
        candidates = self._candidates(slot, placed)
        sides = self.sets.after(side, index, [server for _, server in candidates])
        for (cost, server), following in zip(candidates, sides, strict=True):
            if cost > fibres:
                return False
            self._node()
            if following is None:
                continue
            self.at[slot] = server
            if self._place(index + 1, following, fibres - cost):
                return True
            del self.at[slot]
        return False

    def _candidates(self, slot: int, placed: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return servers for a slot after the fibres that its shortest paths take, least first."""
        lowest = max((self.at[other] for other in self.below[slot]), default=-1)
        needed = sum(width for _, width in self.asked.peers[slot])
        taken = set(self.at.values())
        return sorted(
            (sum(width * self.far[server][peer] for peer, width in placed), server)
            for server in self.asked.free
            if server > lowest and server not in taken and self.around[server] >= needed
        )

    def _left(self) -> Array:
        """Return the spare fibres of every cut, all slots being placed."""
        left = self.slack
        for (a, b), width in self.asked.graph.edges.items():
            left = left - width * self.separates(self.at[a], self.at[b])
        return left

    def _demands(self) -> list[int]:
        """Return the numbers of the bundles, those with the longest paths first."""
        bundles = self.asked.graph.bundles

        def hops(number: int) -> int:
            (a, b), _ = bundles[number]
            return self.far[self.at[a]][self.at[b]]

        return sorted(range(len(bundles)), key=hops, reverse=True)

    def _lead(self, demands: list[int], slack: Array) -> bool:
        """Find paths for the bundles with the numbers in `demands`; all slots are placed."""
        if not demands:
            return True
        (start, _), _ = self.asked.graph.bundles[demands[0]]
        self.paths[demands[0]] = [self.at[start]]
        return self._step(demands, slack)

    def _step(self, demands: list[int], slack: Array) -> bool:
        """Move the first bundle of `demands` on by one link, and so on to its end."""
        (_, slot), width = self.asked.graph.bundles[demands[0]]
        path, end = self.paths[demands[0]], self.at[slot]
        here = path[-1]
        if here == end:
            return self._lead(demands[1:], slack)
        near = sorted(self.asked.torus.neighbours[here], key=lambda to: self.far[to[0]][end])
        for there, link in near:
            if self.room[link] < width or there in path:
                continue
            self._node()
            # Left for good is what a set's border is crossed there and back.
            there_and_back = self.separates(here, there) & self.separates(there, end)
            left = slack - 2 * width * there_and_back
            if (left < 0).any():
                continue
            self.room[link] -= width
            path.append(there)
            if self._step(demands, left):
                return True
            path.pop()
            self.room[link] += width
        return False


def _distances(asked: Request, start: int) -> list[int]:
    """Return how many links every server is away, over those with room for the thinnest bundle."""
    width = min((fibres for _, fibres in asked.graph.bundles), default=1)
    far = [_UNREACHED] * len(asked.torus.servers)
    far[start] = 0
    reached = [start]
    for server in reached:
        for other, link in asked.torus.neighbours[server]:
            if far[other] == _UNREACHED and asked.room[link] >= width:
                far[other] = far[server] + 1
                reached.append(other)
    return far
