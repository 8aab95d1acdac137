"""Place a job that runs on a rack: a server for each rank, and a path for each of its links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from testbed.rack.allocator import NODES, place_graph
from testbed.rack.complete import GivenUp, search_paths
from testbed.rack.search import Request
from testbed.rack.slices import Occupancy, Refusal, Slice
from testbed.rack.torus import Link, Shape, SlotGraph, Torus, blocks

NO_ROUTE = "no path between its servers has a free fibre for each of their circuits"


def slots_of_ranks(ranks: int, links: Mapping[Link, int]) -> SlotGraph:
    """Return ranks as the slots of a slice, with the number of circuits between each two."""
    return SlotGraph((ranks, 1, 1), ranks, dict(sorted(links.items())))


def place_ranks(torus: Torus, graph: SlotGraph, state: Occupancy) -> Slice | Refusal:
    """Return servers for the ranks of a job, and the paths of their circuits.

    They are a row along an axis where that is free and needs no other server to pass light on, or
    else any free ones.
    """
    for servers in rows(torus, graph.slots):
        if state.free.issuperset(servers):
            found = route_ranks(torus, graph, servers, state.room)
            if isinstance(found, Slice) and all(
                {*servers}.issuperset(path) for path in found.paths
            ):
                return found
    return place_graph(torus, graph, state)


def route_ranks(
    torus: Torus, graph: SlotGraph, servers: Sequence[int], room: Sequence[int]
) -> Slice | Refusal:
    """Return the paths of the circuits between ranks on given servers; `room` is free fibres."""
    asked = Request(torus, graph, frozenset(servers), tuple(room))
    try:
        found = search_paths(asked, servers, NODES)
    except GivenUp:
        return Refusal(NO_ROUTE, proved=False)
    return found or Refusal(NO_ROUTE, proved=True)


def rows(torus: Torus, length: int) -> Iterator[tuple[int, ...]]:
    """Yield the aligned rows of so many servers along each axis."""
    shapes: tuple[Shape, ...] = ((length, 1, 1), (1, length, 1), (1, 1, length))
    for shape in dict.fromkeys(shapes):
        chips = tuple(n * part for n, part in zip(shape, torus.server, strict=True))
        if all(n <= whole for n, whole in zip(shape, torus.grid, strict=True)):
            yield from blocks(torus, (chips[0], chips[1], chips[2]))
