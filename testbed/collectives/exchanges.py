"""All-to-all: every rank has something else for every other, exchanged in pairs."""

from __future__ import annotations

import numpy as np

from testbed.collectives.schedule import Round, Schedule


def all_to_all(ranks: int) -> Schedule:
    """Return the exchange of every pair in n - 1 matchings for an even n, in n for an odd one.

    Chunk `source * n + destination` is what one rank has for another; a rank needs room only for
    those that it sends or receives. The matchings are the rounds of a round-robin tournament, a
    1-factorisation of the complete graph: one stays where it is, the others move round it. With an
    odd number, who meets the one that is missing pauses.
    """
    rounds = []
    for pairs in one_factorisation(ranks + ranks % 2):
        met = np.array([pair for pair in pairs if max(pair) < ranks], np.int32).reshape(-1, 2)
        source = np.concatenate([met[:, 0], met[:, 1]])
        destination = np.concatenate([met[:, 1], met[:, 0]])
        if source.size:
            rounds.append(Round.alike(source, destination, source * ranks + destination, "copy", 1))
    return Schedule("all-to-all", "all-to-all", ranks, ranks * ranks, tuple(rounds))


def one_factorisation(ranks: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return n - 1 perfect matchings of an even number of ranks, every pair in exactly one."""
    if ranks % 2:
        raise ValueError(f"{ranks} ranks have no perfect matching: the number is odd")
    last = ranks - 1
    return tuple(
        ((number, last), *(_facing(number, step, last) for step in range(1, ranks // 2)))
        for number in range(last)
    )


def _facing(number: int, step: int, places: int) -> tuple[int, int]:
    ends = (number + step) % places, (number - step) % places
    return min(ends), max(ends)
