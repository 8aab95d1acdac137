"""Place a job that runs on a rack: a server for each rank, and a path for each of its links."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from testbed.rack.allocator import NODES, place_graph
from testbed.rack.complete import GivenUp, search_paths
from testbed.rack.search import Request
from testbed.rack.slices import Occupancy, Refusal, Route, Slice
from testbed.rack.torus import Link, Shape, SlotGraph, Torus, blocks

NO_ROUTE = "no paths between its servers have a free fibre for each of their circuits"


Links = Mapping[Link, int]
"""The number of circuits between each two ranks, the lower one first."""


@dataclass(frozen=True, slots=True)
class PlacedRanks:
    """The server of each rank, and the path of each circuit from the lower rank to the higher."""

    servers: tuple[int, ...]
    paths: Mapping[Link, tuple[Route, ...]]


def place_ranks(torus: Torus, ranks: int, links: Links, state: Occupancy) -> PlacedRanks | Refusal:
    """Return servers for the ranks of a job, and the paths of their circuits.

    They are a row along an axis where that is free and needs no other server to pass light on, or
    else any free ones.
    """
    for servers in rows(torus, ranks):
        if state.free.issuperset(servers):
            inside = tuple(
                fibres * ({a, b} <= {*servers})
                for (a, b), fibres in zip(torus.links, state.room, strict=True)
            )
            found = route_ranks(torus, servers, links, inside)
            if isinstance(found, PlacedRanks):
                return found
    return _bundled_or_split(ranks, links, lambda graph: place_graph(torus, graph, state))


def route_ranks(
    torus: Torus, servers: Sequence[int], links: Links, room: Sequence[int]
) -> PlacedRanks | Refusal:
    """Return the paths of the circuits between ranks on given servers; `room` is free fibres."""

    def routed(graph: SlotGraph) -> Slice | Refusal:
        try:
            asked = Request(torus, graph, frozenset(servers), tuple(room))
            found = search_paths(asked, servers, NODES)
        except GivenUp:
            return Refusal(NO_ROUTE, proved=False)
        return found or Refusal(NO_ROUTE, proved=True)

    return _bundled_or_split(len(servers), links, routed)


def _bundled_or_split(
    ranks: int, links: Links, placed: Callable[[SlotGraph], Slice | Refusal]
) -> PlacedRanks | Refusal:
    """Return what takes fewer fibres: one path for all circuits of two ranks, or one for each."""
    together = SlotGraph((ranks, 1, 1), ranks, dict(sorted(links.items())))
    found = _placed(together, placed(together))
    if max(links.values(), default=1) == 1:
        return found
    split = replace(together, splittable=True)
    other = _placed(split, placed(split))
    return other if _fibres(other) < _fibres(found) or isinstance(found, Refusal) else found


def _placed(graph: SlotGraph, found: Slice | Refusal) -> PlacedRanks | Refusal:
    if isinstance(found, Refusal):
        return found
    paths: dict[Link, tuple[Route, ...]] = {}
    for (link, circuits), path in zip(graph.bundles, found.paths, strict=True):
        paths[link] = paths.get(link, ()) + (path,) * circuits
    return PlacedRanks(found.servers, paths)


def _fibres(found: PlacedRanks | Refusal) -> float:
    """Return the number of fibres that all circuits take."""
    if isinstance(found, Refusal):
        return inf
    return sum(len(path) - 1 for paths in found.paths.values() for path in paths)


def rows(torus: Torus, length: int) -> Iterator[tuple[int, ...]]:
    """Yield the aligned rows of so many servers along each axis."""
    shapes: tuple[Shape, ...] = ((length, 1, 1), (1, length, 1), (1, 1, length))
    for shape in dict.fromkeys(shapes):
        chips = tuple(n * part for n, part in zip(shape, torus.server, strict=True))
        if all(n <= whole for n, whole in zip(shape, torus.grid, strict=True)):
            yield from blocks(torus, (chips[0], chips[1], chips[2]))
