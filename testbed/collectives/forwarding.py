"""Route the sends of a schedule over lit circuits, forwarding from rank to rank.

A rank on the path receives a message completely and sends it on in a later round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from testbed.collectives.schedule import Pair, Round, Schedule, Send


@dataclass(frozen=True, slots=True)
class Hop:
    """One circuit on the path of a send; `message` is the index of the send in its schedule.

    A rank on the path keeps forwarded data apart from its own chunks.
    """

    send: Send
    message: int
    source: int
    destination: int

    @property
    def passed_on(self) -> int | None:
        """Return the number of the message that its source forwards; None for its own data."""
        return None if self.source == self.send.source else self.message

    @property
    def held(self) -> int | None:
        """Return the number of the message that its destination is to forward, or None."""
        return None if self.destination == self.send.destination else self.message

    @property
    def row(self) -> list[Any]:
        """Return the hop as a list: its send, then the message it forwards and the one it holds."""
        send, ends = self.send, (self.source, self.destination)
        return [*ends, send.chunk, send.count, send.operation, self.passed_on, self.held]


@dataclass(frozen=True)
class Forwarded:
    """A schedule over fixed circuits: each round of it takes one or more rounds of hops."""

    schedule: Schedule
    rounds: tuple[tuple[Hop, ...], ...]

    def as_sends(self) -> Schedule:
        """Return a schedule of the same messages, by which `cost` prices their rounds."""
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
        """Return the schedule as plain data for ranks, with hops in place of sends."""
        return {
            "name": f"{self.schedule.name}-forwarded",
            "ranks": self.schedule.ranks,
            "chunks": self.schedule.chunks,
            "rounds": [[hop.row for hop in step] for step in self.rounds],
        }


def forwarded(
    schedule: Schedule, lit: Iterable[Pair], *, around_straggler: bool = False
) -> Forwarded:
    """Return a schedule that carries the given one out over lit circuits only.

    Ranks on a path hold forwarded data until the next hop. A round ends before the next begins.
    Within a round nothing arrives at its destination before all forwarded data has left its source,
    since it could be added to data that is still to be sent. Of paths of equal length the one with
    the least loaded ranks is taken. With `around_straggler` paths of the rounds before its own lead
    around the straggler, where there are any: those over it would begin only once it is there.
    Raise ValueError where no path exists.
    """
    neighbours = _neighbours(lit)
    others = _without(neighbours, schedule.straggler)
    early = schedule.early if around_straggler else 0
    rounds: list[tuple[Hop, ...]] = []
    numbers = count()
    for place, step in enumerate(schedule.rounds):
        busy = np.bincount(
            np.concatenate([step.source, step.destination]), minlength=schedule.ranks
        )
        parcels = []
        for send in step:
            ends = send.source, send.destination
            path = None
            if place < early:
                path = _shortest_path(*ends, _idle_first(others, busy))
            path = path or _shortest_path(*ends, _idle_first(neighbours, busy))
            if path is None:
                raise ValueError(f"no lit circuits lead from rank {ends[0]} to rank {ends[1]}")
            busy[path[1:-1]] += 2
            parcels.append(_Parcel(send, next(numbers), path))
        rounds += _relayed(parcels)
    return Forwarded(schedule, tuple(rounds))


@dataclass(slots=True)
class _Parcel:
    """A send and the rest of its path: the rank where it is, and those where it still goes."""

    send: Send
    message: int
    path: Sequence[int]

    @property
    def left(self) -> int:
        return len(self.path) - 1

    def move(self) -> Hop:
        hop = Hop(self.send, self.message, self.path[0], self.path[1])
        self.path = self.path[1:]
        return hop


def _relayed(parcels: Sequence[_Parcel]) -> list[tuple[Hop, ...]]:
    """Return the rounds of hops that bring the parcels of one round to their destinations."""
    near = [parcel for parcel in parcels if parcel.left == 1]
    far = [parcel for parcel in parcels if parcel.left > 1]
    rounds = []
    while any(parcel.path[0] == parcel.send.source for parcel in far):
        rounds.append(tuple(_moved([parcel for parcel in far if parcel.left > 1])))
    if near:
        sending, receiving = {p.path[0] for p in near}, {p.path[1] for p in near}
        beside = [p for p in far if p.path[0] not in sending and p.path[1] not in receiving]
        rounds.append((*(parcel.move() for parcel in near), *_moved(beside)))
    while any(parcel.left for parcel in far):
        rounds.append(tuple(_moved([parcel for parcel in far if parcel.left])))
    return rounds


def _moved(pending: Sequence[_Parcel]) -> list[Hop]:
    """Move parcels on by one circuit: as many as can be, and of these what has longest to go."""
    ranks = 1 + max((max(parcel.path) for parcel in pending), default=0)
    first: dict[tuple[int, int], _Parcel] = {}
    for parcel in sorted(pending, key=lambda parcel: parcel.left):
        first[parcel.path[0], parcel.path[1]] = parcel
    worth = np.zeros((ranks, ranks))
    for (here, there), parcel in first.items():
        worth[here, there] = ranks * ranks + parcel.left  # one more move outweighs any distance
    chosen = np.transpose(linear_sum_assignment(worth, maximize=True)).tolist()
    return [moved.move() for here, there in chosen if (moved := first.get((here, there)))]


def _neighbours(lit: Iterable[Pair]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for one, other in sorted(lit):
        found.setdefault(one, []).append(other)
        found.setdefault(other, []).append(one)
    return found


def _without(neighbours: Mapping[int, Sequence[int]], gone: int | None) -> dict[int, list[int]]:
    return {
        rank: [other for other in others if other != gone]
        for rank, others in neighbours.items()
        if rank != gone
    }


def _idle_first(
    neighbours: Mapping[int, Sequence[int]], busy: npt.NDArray[Any]
) -> dict[int, list[int]]:
    """Return the neighbours of each rank, those first that have least to do in the round."""
    return {
        rank: sorted(others, key=lambda other: (busy[other], other))
        for rank, others in neighbours.items()
    }


def _shortest_path(
    source: int, destination: int, neighbours: Mapping[int, Sequence[int]]
) -> list[int] | None:
    """Return the ranks of a shortest path, of several the first in the order of `neighbours`.

    None where there is none.
    """
    before, reached = {source: source}, [source]
    for here in reached:
        for there in neighbours.get(here, ()):
            if there not in before:
                before[there] = here
                reached.append(there)
    if destination not in before:
        return None
    path = [destination]
    while path[-1] != source:
        path.append(before[path[-1]])
    return path[::-1]
