"""What to do where no circuit leads: make one, or forward over those that are lit.

Ranks forward, switches do not: what passes through a rank is received whole and sent on in a later
round.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
        _Parcel(send, number, _way(ways[send.source], send.source, send.destination))
        for number, send in enumerate(send for step in schedule.rounds for send in step)
    ]
    rounds = []
    while pending:
        hops = _moved(pending)
        rounds.append(Round.of(Send(h.source, h.destination, h.send.chunk, "copy") for h in hops))
        pending = [parcel for parcel in pending if parcel.left]
    return replace(schedule, name=f"{schedule.name}-forwarded", rounds=tuple(rounds))


@dataclass(frozen=True, slots=True)
class Hop:
    """One circuit of the way of a send; `message` is the number of the send in its schedule.

    A rank on the way holds what it passes on apart from its own chunks.
    """

    send: Send
    message: int
    source: int
    destination: int

    @property
    def row(self) -> list[Any]:
        """Return it as plain data: a send, then what the source passes on, what is only held."""
        send = self.send
        passed_on = None if self.source == send.source else self.message
        held = None if self.destination == send.destination else self.message
        ends = (self.source, self.destination)
        return [*ends, send.chunk, send.count, send.operation, passed_on, held]


@dataclass(frozen=True)
class Forwarded:
    """A schedule over circuits that stay: each of its rounds is one or more rounds of hops."""

    schedule: Schedule
    rounds: tuple[tuple[Hop, ...], ...]

    def as_sends(self) -> Schedule:
        """Return a schedule of the same messages, which costs what this one does."""
        return replace(
            self.schedule,
            rounds=tuple(
                Round.of(
                    Send(hop.source, hop.destination, hop.send.chunk, "copy", hop.send.count)
                    for hop in step
                )
                for step in self.rounds
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data for ranks: what `schedule.to_json` says, with hops for sends."""
        return {
            "name": f"{self.schedule.name}-forwarded",
            "ranks": self.schedule.ranks,
            "chunks": self.schedule.chunks,
            "rounds": [[hop.row for hop in step] for step in self.rounds],
        }


def forwarded(schedule: Schedule, lit: Iterable[Pair]) -> Forwarded:
    """Return any schedule over lit circuits only; ranks hold what is not theirs until the next hop.

    A round is over before the next begins. Within it nothing arrives where it is going before all
    that has a way to go has left: it could be added to what has yet to be sent. Of ways of equal
    length the one is taken whose ranks have least to do. Raise ValueError where none leads.
    """
    neighbours = _neighbours(lit)
    rounds: list[tuple[Hop, ...]] = []
    number = 0
    for step in schedule.rounds:
        busy = np.bincount(
            np.concatenate([step.source, step.destination]), minlength=schedule.ranks
        )
        parcels = []
        for send in step:
            idle_first = {
                rank: sorted(others, key=lambda other: (busy[other], other))
                for rank, others in neighbours.items()
            }
            way = _way(_ways_from(send.source, idle_first), send.source, send.destination)
            busy[way[1:-1]] += 2
            parcels.append(_Parcel(send, number, way))
            number += 1
        rounds += _relayed(parcels)
    return Forwarded(schedule, tuple(rounds))


@dataclass(slots=True)
class _Parcel:
    """A send and the ranks that are before it: where it is, and where it still goes."""

    send: Send
    message: int
    way: Sequence[int]

    @property
    def left(self) -> int:
        return len(self.way) - 1

    @property
    def is_at_home(self) -> bool:
        return self.way[0] == self.send.source

    def move(self) -> Hop:
        hop = Hop(self.send, self.message, self.way[0], self.way[1])
        self.way = self.way[1:]
        return hop


def _relayed(parcels: Sequence[_Parcel]) -> list[tuple[Hop, ...]]:
    """Return the rounds of hops that bring the parcels of one round where they go."""
    near = [parcel for parcel in parcels if parcel.left == 1]
    far = [parcel for parcel in parcels if parcel.left > 1]
    rounds = []
    while any(parcel.is_at_home for parcel in far):
        rounds.append(tuple(_moved([parcel for parcel in far if parcel.left > 1])))
    if near:
        sending, hearing = {p.way[0] for p in near}, {p.way[1] for p in near}
        beside = [p for p in far if p.way[0] not in sending and p.way[1] not in hearing]
        rounds.append((*(parcel.move() for parcel in near), *_moved(beside)))
    while any(parcel.left for parcel in far):
        rounds.append(tuple(_moved([parcel for parcel in far if parcel.left])))
    return rounds


def _moved(pending: Sequence[_Parcel]) -> list[Hop]:
    """Move parcels on by one circuit: as many as can be, and of these what has longest to go."""
    ranks = 1 + max((max(parcel.way) for parcel in pending), default=0)
    first: dict[tuple[int, int], _Parcel] = {}
    for parcel in sorted(pending, key=lambda parcel: parcel.left):
        first[parcel.way[0], parcel.way[1]] = parcel
    worth = np.zeros((ranks, ranks))
    for (here, there), parcel in first.items():
        worth[here, there] = ranks * ranks + parcel.left  # one more move wins over any ways left
    chosen = np.transpose(linear_sum_assignment(worth, maximize=True)).tolist()
    return [moved.move() for here, there in chosen if (moved := first.get((here, there)))]


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
