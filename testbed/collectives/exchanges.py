"""All-to-all schedules: every rank has different data for every other rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.collectives.schedule import Round, Schedule


def all_to_all(ranks: int) -> Schedule:
    """Return the pairwise exchange: n - 1 matchings for an even number of ranks, n for an odd.

    Chunk `source * n + destination` is the data of one rank for another; a rank stores only the
    chunks that it sends or receives. The matchings are the rounds of a round-robin tournament, a
    1-factorisation of the complete graph (circle method). For an odd number one rank pauses in each
    round.
    """
    rounds = []
    for pairs in matchings(ranks):
        met = np.array(pairs, np.int32).reshape(-1, 2)
        source = np.concatenate([met[:, 0], met[:, 1]])
        destination = np.concatenate([met[:, 1], met[:, 0]])
        if source.size:
            rounds.append(Round.alike(source, destination, source * ranks + destination, "copy", 1))
    return Schedule("all-to-all", "all-to-all", ranks, ranks * ranks, tuple(rounds))


def matchings(ranks: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return matchings in which every two ranks meet once: n - 1, or n for an odd number."""
    return tuple(
        tuple(pair for pair in pairs if max(pair) < ranks)
        for pairs in one_factorisation(ranks + ranks % 2)
    )


def matchings_of(group: Sequence[int]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return the matchings of the ranks of a group, each pair in the order of the group."""
    return tuple(
        tuple((group[one], group[other]) for one, other in pairs) for pairs in matchings(len(group))
    )


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
