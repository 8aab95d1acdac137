"""Check the place and wiring of slices, independently of the allocator's code.

Everything is derived anew from the rack's dimensions, by arithmetic on coordinates: which servers
are neighbours, how many fibres join them, what a slice's slots and edges are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from testbed.rack.slices import Occupancy, Slice
from testbed.rack.torus import Shape, Torus


class WrongAnswer(AssertionError):
    """An allocator's answer failed the check: a bug, and the answer must not be used."""


def checked(torus: Torus, state: Occupancy, answer: Slice) -> Slice:
    """Return the answer if it fits the free servers and fibres; raise WrongAnswer otherwise."""
    found = mistakes(torus, [answer], state)
    if found:
        raise WrongAnswer(f"{answer}: {'; '.join(found)}")
    return answer


def mistakes(torus: Torus, slices: Sequence[Slice], state: Occupancy | None = None) -> list[str]:
    """Return what is wrong with slices that share a rack; empty when all is right.

    With a state, only its free servers and fibres may be used; without one, the whole rack.
    """
    fibres, size = _rack_fibres(torus)
    room = fibres if state is None else dict(zip(sorted(fibres), state.room, strict=True))
    free = set(range(size)) if state is None else state.free
    found = _server_mistakes(slices, free)
    used: Counter[tuple[int, int]] = Counter()
    for each in slices:
        found += _slice_mistakes(torus, each, used)
    found += [
        f"{used[pair]} fibres of {room.get(pair, 0)} between servers {pair[0]} and {pair[1]}"
        for pair in sorted(used)
        if used[pair] > room.get(pair, 0)
    ]
    return found


def _server_mistakes(slices: Sequence[Slice], free: Collection[int]) -> list[str]:
    times = Counter(server for each in slices for server in each.servers)
    found = [f"server {server} is used {n} times" for server, n in times.items() if n > 1]
    return found + [f"server {server} is not free" for server in times if server not in free]


def _slice_mistakes(torus: Torus, each: Slice, used: Counter[tuple[int, int]]) -> list[str]:
    """Return what is wrong with one slice by itself, and add the fibres that it uses."""
    edges, number = _slot_fibres(torus, each.shape)
    if len(each.servers) != number:
        return [f"{len(each.servers)} servers for {number} slots"]
    if len(each.paths) != len(edges):
        return [f"{len(each.paths)} paths for {len(edges)} slot edges"]
    found = []
    for ((a, b), fibres), path in zip(edges.items(), each.paths, strict=True):
        ends = (each.servers[a], each.servers[b])
        if not path or (path[0], path[-1]) != ends:
            found.append(f"path {path} does not join servers {ends[0]} and {ends[1]}")
        if len(set(path)) != len(path):
            found.append(f"path {path} comes to a server twice")
        for here, there in pairwise(path):
            used[min(here, there), max(here, there)] += fibres
    return found


@lru_cache
def _rack_fibres(torus: Torus) -> tuple[Mapping[tuple[int, int], int], int]:
    """Return the fibres between neighbouring servers of a rack, and how many servers it has."""
    return _block_fibres(torus, parts(torus.chips, torus.server))


@lru_cache
def _slot_fibres(torus: Torus, shape: Shape) -> tuple[Mapping[tuple[int, int], int], int]:
    """Return the fibres on the slot edges of a slice, and how many slots it has."""
    return _block_fibres(torus, parts(shape, torus.server))


def _block_fibres(torus: Torus, extent: Shape) -> tuple[Mapping[tuple[int, int], int], int]:
    grid = parts(torus.chips, torus.server)
    number = extent[0] * extent[1] * extent[2]
    between = {
        (a, b): fibres_between(torus, grid, extent, at(extent, a), at(extent, b))
        for a in range(number)
        for b in range(a + 1, number)
    }
    return {pair: fibres for pair, fibres in between.items() if fibres}, number


def fibres_between(torus: Torus, grid: Shape, extent: Shape, a: Shape, b: Shape) -> int:
    """Return how many fibres join two servers of a block of `extent` servers.

    The face that they share has one chip link for each chip on it; where the block spans the rack
    the last server is also the first one's neighbour, which doubles the fibres between two.
    """
    axes = [axis for axis in range(3) if a[axis] != b[axis]]
    if len(axes) != 1:
        return 0
    (axis,) = axes
    length, apart = extent[axis], abs(a[axis] - b[axis])
    around = length == grid[axis]
    touching = (apart == 1) + (around and apart == length - 1)
    face = torus.server[0] * torus.server[1] * torus.server[2] // torus.server[axis]
    return touching * face * torus.fibres


def parts(whole: Shape, part: Shape) -> Shape:
    """Divide by `part` along each axis: the number of parts, or the part of a coordinate."""
    return (whole[0] // part[0], whole[1] // part[1], whole[2] // part[2])


def at(extent: Shape, number: int) -> Shape:
    """Return the coordinate with this number in lexicographic order."""
    return (
        number // (extent[1] * extent[2]),
        number // extent[2] % extent[1],
        number % extent[2],
    )
