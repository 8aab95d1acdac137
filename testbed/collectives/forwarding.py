"""What to do where no circuit leads: make one, or forward over those that are lit.

Ranks forward, switches do not: what passes through a rank is received whole and sent on in a later
round.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from testbed.collectives.cost import Links
from testbed.collectives.schedule import Pair, Round, Schedule, Send


@dataclass(frozen=True, slots=True)
class Way:
    """How to get a message to a rank that no circuit leads to."""

    repoint: bool
    repointing: float
    """Seconds by a circuit of its own, with the time to make it."""
    forwarding: float
    """Seconds over the circuits that are lit, from rank to rank."""
    chunks: int
    """In how many pieces forwarding is fastest."""


def repoint_or_forward(size: int, hops: int, links: Links) -> Way:
    """Return which is faster for `size` bytes: a circuit of their own, or `hops` circuits in a row.

    Ranks forward in pieces, each a round behind the one before: hops + k - 1 rounds for k pieces
    (`broadcasts.chain`). More pieces leave less waiting for whole messages, and cost more α.
    """
    if hops < 1:
        raise ValueError(f"{hops} hops lead nowhere")
    ideal = math.inf if not links.alpha else math.sqrt((hops - 1) * size * links.beta / links.alpha)
    candidates = {
        min(max(pieces, 1), max(size, 1))
        for pieces in (1, math.floor(min(ideal, size)), math.ceil(min(ideal, size)))
    }
    forwarding, chunks = min(
        ((hops + pieces - 1) * links.seconds(math.ceil(size / pieces)), pieces)
        for pieces in candidates
    )
    repointing = links.reconfiguration + links.seconds(size)
    return Way(repointing < forwarding, repointing, forwarding, chunks)


def over_circuits(schedule: Schedule, lit: Iterable[Pair]) -> Schedule:
    """Return an all-to-all in which every chunk goes over lit circuits only, by the fewest of them.

    `cost.fastest` says which of the two to take. Raise ValueError for other collectives, whose
    chunks have no room of their own at the ranks on the way, and where no way leads.
    """
    if schedule.collective != "all-to-all":
        raise ValueError(f"a chunk of {schedule.name} has no room of its own on the way")
    neighbours = _neighbours(lit)
    ways = {rank: _ways_from(rank, neighbours) for rank in range(schedule.ranks)}
    pending = [
        _Parcel(send.chunk, _way(ways[send.source], send.source, send.destination))
        for step in schedule.rounds
        for send in step
    ]
    rounds = []
    while pending:
        rounds.append(Round.of(_moved(pending)))
        pending = [parcel for parcel in pending if parcel.left]
    return replace(schedule, name=f"{schedule.name}-forwarded", rounds=tuple(rounds))


@dataclass(slots=True)
class _Parcel:
    """A chunk and the ranks that are before it: where it is, and where it still goes."""

    chunk: int
    way: Sequence[int]

    @property
    def left(self) -> int:
        return len(self.way) - 1


def _moved(pending: Sequence[_Parcel]) -> list[Send]:
    """Move parcels on by one circuit: as many as can be, and of these what has longest to go."""
    ranks = 1 + max(max(parcel.way) for parcel in pending)
    first: dict[tuple[int, int], _Parcel] = {}
    for parcel in sorted(pending, key=lambda parcel: parcel.left):
        first[parcel.way[0], parcel.way[1]] = parcel
    worth = np.zeros((ranks, ranks))
    for (here, there), parcel in first.items():
        worth[here, there] = ranks * ranks + parcel.left  # one more move wins over any ways left
    sends = []
    for here, there in np.transpose(linear_sum_assignment(worth, maximize=True)).tolist():
        if moved := first.get((here, there)):
            sends.append(Send(here, there, moved.chunk, "copy"))
            moved.way = moved.way[1:]
    return sends


def _neighbours(lit: Iterable[Pair]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for one, other in sorted(lit):
        found.setdefault(one, []).append(other)
        found.setdefault(other, []).append(one)
    return found


def _ways_from(rank: int, neighbours: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return, for each rank that can be reached, the one before it on a shortest way."""
    before = {rank: rank}
    queue = deque([rank])
    while queue:
        here = queue.popleft()
        for there in neighbours.get(here, ()):
            if there not in before:
                before[there] = here
                queue.append(there)
    return before


def _way(before: Mapping[int, int], source: int, destination: int) -> list[int]:
    if destination not in before:
        raise ValueError(f"no lit circuits lead from rank {source} to rank {destination}")
    way = [destination]
    while way[-1] != source:
        way.append(before[way[-1]])
    return way[::-1]
