"""Check where slices are and how they are wired, without a line of what placed them.

Everything is derived anew from the rack's dimensions, by arithmetic on coordinates: which servers
are neighbours, how many fibres join them, what a slice's slots and edges are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise

from testbed.rack.slices import Occupancy, Slice
from testbed.rack.torus import Shape, Torus


class WrongAnswer(AssertionError):
    """An allocator's answer failed the check: a bug, and the answer must not be used."""


def insist(torus: Torus, state: Occupancy, answer: Slice) -> Slice:
    """Return the answer if it fits what was free. Raise WrongAnswer if it does not."""
    found = mistakes(torus, [answer], state)
    if found:
        raise WrongAnswer(f"{answer}: {'; '.join(found)}")
    return answer


def mistakes(torus: Torus, slices: Sequence[Slice], state: Occupancy | None = None) -> list[str]:
    """Return what is wrong with slices that share a rack; nothing when all is right.

    With a state, only what it has free may be used; without one, the whole rack.
    """
    grid = _parts(torus.chips, torus.server)
    size = grid[0] * grid[1] * grid[2]
    fibres = {
        (a, b): _fibres_between(torus, grid, grid, _at(grid, a), _at(grid, b))
        for a in range(size)
        for b in range(a + 1, size)
    }
    fibres = {pair: number for pair, number in fibres.items() if number}
    room = fibres if state is None else dict(zip(sorted(fibres), state.room, strict=True))
    free = set(range(size)) if state is None else state.free
    found = _server_mistakes(slices, free)
    used: Counter[tuple[int, int]] = Counter()
    for each in slices:
        found += _slice_mistakes(torus, grid, each, used)
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


def _slice_mistakes(
    torus: Torus, grid: Shape, each: Slice, used: Counter[tuple[int, int]]
) -> list[str]:
    """Return what is wrong with one slice by itself, and add the fibres that it uses."""
    slots = _parts(each.shape, torus.server)
    number = slots[0] * slots[1] * slots[2]
    if len(each.servers) != number:
        return [f"{len(each.servers)} servers for {number} slots"]
    edges = [
        (a, b, fibres)
        for a in range(number)
        for b in range(a + 1, number)
        if (fibres := _fibres_between(torus, grid, slots, _at(slots, a), _at(slots, b)))
    ]
    if len(each.paths) != len(edges):
        return [f"{len(each.paths)} paths for {len(edges)} slot edges"]
    found = []
    for (a, b, fibres), path in zip(edges, each.paths, strict=True):
        ends = (each.servers[a], each.servers[b])
        if not path or (path[0], path[-1]) != ends:
            found.append(f"path {path} does not join servers {ends[0]} and {ends[1]}")
        if len(set(path)) != len(path):
            found.append(f"path {path} comes to a server twice")
        for here, there in pairwise(path):
            used[min(here, there), max(here, there)] += fibres
    return found


def _fibres_between(torus: Torus, grid: Shape, extent: Shape, a: Shape, b: Shape) -> int:
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


def _parts(whole: Shape, part: Shape) -> Shape:
    return (whole[0] // part[0], whole[1] // part[1], whole[2] // part[2])


def _at(extent: Shape, number: int) -> Shape:
    return (
        number // (extent[1] * extent[2]),
        number // extent[2] % extent[1],
        number % extent[2],
    )
