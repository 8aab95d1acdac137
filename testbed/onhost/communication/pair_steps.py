"""A rank's part of a collective whose rounds are matchings: one pair of circuits after the other.

A rank with one port reaches one other rank at a time. Consecutive rounds with the same peer are a
step, for which the circuit between the two is needed; before the next step it may go. Both ranks of
a pair find the same steps, as a pair that meets in a round does so on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import Refused
from .rank_schedule import RankSchedule


@dataclass(frozen=True)
class PairStep:
    """Consecutive rounds of a schedule in which a rank has one peer: its part of them."""

    peer: int
    schedule: RankSchedule


def pair_steps(schedule: Mapping[str, Any], rank: int) -> tuple[PairStep, ...]:
    """Return the steps of a rank, of a schedule in the format of `collectives`.

    Raise Refused for a round in which the rank has several peers.
    """
    return tuple(_steps(schedule, rank))


def partners(schedule: Mapping[str, Any], rank: int) -> tuple[int, ...]:
    """Return the ranks that a rank meets, in the order in which it first does."""
    return tuple(dict.fromkeys(step.peer for step in pair_steps(schedule, rank)))


def _steps(schedule: Mapping[str, Any], rank: int) -> Iterator[PairStep]:
    rounds = schedule["rounds"]
    peers = [_peer(step, rank, number) for number, step in enumerate(rounds)] + [None]
    first = 0
    for number, peer in enumerate(peers):
        if peer == peers[first]:
            continue
        if peers[first] is not None:
            part = {"chunks": schedule["chunks"], "first": first, "rounds": rounds[first:number]}
            yield PairStep(peers[first], RankSchedule.of(part, rank))
        first = number


def _peer(step: Any, rank: int, number: int) -> Any:
    """Return the peer of a rank in a round, or None where it pauses."""
    found = {other for row in step for one, other in (row[:2], row[1::-1]) if one == rank}
    if len(found) > 1:
        raise Refused(f"rank {rank} has the peers {sorted(found)} in round {number}, and one port")
    return found.pop() if found else None
