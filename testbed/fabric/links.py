"""Links between ranks, as a topology defines them, before hosts and fibres are known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from testbed.fabric.matchings import Pair

End = tuple[int, int]
"""A rank, and the number of one of its ports, from 0."""

Link = tuple[End, End]
"""Two ends that a circuit joins, the lower one first; `link` puts them in order."""

Links = frozenset[Link]


def link(one: End, other: End) -> Link:
    """Return the link between two ends; raise ValueError when both are of one rank."""
    if one[0] == other[0]:
        raise ValueError(f"a link from rank {one[0]} to itself")
    return (one, other) if one < other else (other, one)


def bundle(one: End, other: End, fibres: int) -> list[Link]:
    """Return links over `fibres` consecutive ports, starting at the given ends."""
    (a, p), (b, q) = one, other
    return [link((a, p + n), (b, q + n)) for n in range(fibres)]


def links_between(pairs: Iterable[Pair], ranks: int, ports: int) -> Links:
    """Return a link for each pair of ranks, over the lowest free port of each.

    A pair that comes twice has two links. Raise ValueError for a rank that does not exist, and for
    one with more pairs than ports.
    """
    used = [0] * ranks
    found = []
    for a, b in pairs:
        for rank in (a, b):
            if not 0 <= rank < ranks:
                raise ValueError(f"rank {rank} is not one of the {ranks} ranks")
            if used[rank] == ports:
                raise ValueError(f"rank {rank} has no port left for the link of {a} and {b}")
        found.append(link((a, used[a]), (b, used[b])))
        used[a] += 1
        used[b] += 1
    return frozenset(found)


def ring_ports(links: Iterable[Link], ranks: int) -> tuple[tuple[int, int], ...]:
    """Return, of each of two ranks or more, its ports from the previous rank and to the next one.

    Of several links to the next rank it is that at the highest port. Raise ValueError where a rank
    is not joined with the next.
    """
    to_next: dict[int, tuple[int, int]] = {}
    for both in links:
        for (rank, port), (other, far) in (both, both[::-1]):
            if other == (rank + 1) % ranks:
                to_next[rank] = max(to_next.get(rank, (port, far)), (port, far))
    for rank in range(ranks):
        if rank not in to_next:
            raise ValueError(f"rank {rank} is not joined with rank {(rank + 1) % ranks}")
    return tuple((to_next[(rank - 1) % ranks][1], to_next[rank][0]) for rank in range(ranks))


def renumbered(links: Iterable[Link], ranks: Sequence[int]) -> Links:
    """Return links with rank number i replaced by `ranks[i]`."""
    return frozenset(link((ranks[a], p), (ranks[b], q)) for (a, p), (b, q) in links)


def side_by_side(parts: Iterable[Sequence[Links]]) -> tuple[Links, ...]:
    """Combine the matchings of disjoint sets of ranks: the n-th of each set into the n-th of all.

    A set with fewer matchings than others has no links in the later ones.
    """
    columns = zip_longest(*parts, fillvalue=frozenset[Link]())
    return tuple(frozenset[Link]().union(*column) for column in columns)
