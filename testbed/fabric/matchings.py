"""Matchings in which every pair of ports meets exactly once (1-factorisations).

Each port meets one peer in a matching, so n ports need at least n - 1 of them, and n - 1 are enough
for every even n.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Pair = tuple[int, int]
"""Two ports that meet, by number; of a directed matching, who sends and who receives."""

Matching = tuple[Pair, ...]


def round_robin(n: int) -> tuple[Matching, ...]:
    """Return n - 1 matchings of the ports 0…n-1 in which every pair meets exactly once.

    The circle method: port n - 1 meets port r in matching r, the others meet in pairs whose sum is
    2r modulo n - 1. With ports in their order around a mesh, the pairs of a matching are parallel
    chords, and only the chord of port n - 1 crosses others. Raise ValueError unless n is even.
    """
    if n < 2 or n % 2:
        raise ValueError(f"matchings of all pairs need an even number of ports, not {n}")
    last = n - 1
    return tuple(
        (_ordered(r, last), *(_ordered((r + k) % last, (r - k) % last) for k in range(1, n // 2)))
        for r in range(last)
    )


def both_directions(matching: Matching) -> Matching:
    """Return a directed matching in which both ports of every pair send to each other."""
    return tuple(way for a, b in matching for way in ((a, b), (b, a)))


def what_is_wrong(matchings: Sequence[Matching], n: int) -> str | None:
    """Return why matchings do not let every pair of the ports 0…n-1 meet exactly once, or None."""
    met: set[Pair] = set()
    for number, matching in enumerate(matchings):
        ports = [port for pair in matching for port in pair]
        if sorted(ports) != list(range(n)):
            return f"matching {number} does not have each of the {n} ports once"
        pairs = {_ordered(a, b) for a, b in matching}
        if twice := sorted(pairs & met):
            return f"ports {twice[0][0]} and {twice[0][1]} meet twice"
        met |= pairs
    if len(met) < n * (n - 1) // 2:
        a, b = next(pair for pair in _pairs(n) if pair not in met)
        return f"ports {a} and {b} never meet"
    return None


def _pairs(n: int) -> Iterable[Pair]:
    return ((a, b) for b in range(n) for a in range(b))


def _ordered(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)
