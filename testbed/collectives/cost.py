"""The cost of a schedule by the α-β model, with reconfigured circuits and late ranks.

A round takes α and the time of its largest message, and begins when the round before has ended at
all ranks, its circuits are lit, and its ranks have arrived. Circuits of earlier rounds stay lit
until one of their ends is needed for another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.collectives.schedule import Pair, Round, Schedule


@dataclass(frozen=True, slots=True)
class Links:
    """The cost of messages: α seconds each, β seconds per byte, δ seconds to re-point a switch.

    On a packet switch `reconfiguration` is 0. Raise ValueError for a negative number.
    """

    alpha: float
    beta: float
    reconfiguration: float = 0.0
    credit: float = 0.0
    """Bytes that pass at once after a pause that was long enough for them (`own_pace`)."""

    def __post_init__(self) -> None:
        """Refuse what no link is like."""
        for name in ("alpha", "beta", "reconfiguration", "credit"):
            if not _is_amount(value := getattr(self, name)):
                raise ValueError(f"the {name} of links must be at least 0, not {value}")

    def seconds(self, size: float) -> float:
        """Return how long one message takes over a circuit."""
        return self.alpha + size * self.beta


@dataclass(frozen=True, slots=True)
class Cost:
    """The time of a collective, in seconds from the instant when the first ranks are ready."""

    total: float
    exposed: float
    """What comes after the last rank has arrived: the time that nothing could have hidden."""


def cost(
    schedule: Schedule, size: int, links: Links, late: Mapping[int, float] | None = None
) -> Cost:
    """Return the time that a schedule takes for buffers of `size` bytes.

    In an all-to-all, `size` is the data of one rank for all ranks. `late` maps late ranks to the
    seconds by which they arrive after the others. No circuit is lit at the beginning. Raise
    ValueError for a negative size, an unknown rank, an invalid delay, and a round without sends.
    """
    arrivals = arrivals_of(schedule, late)
    clock = 0.0
    for step, duration, moved in _timed(schedule, size, links):
        clock += links.reconfiguration * moved
        there = max(arrivals[step.source].max(), arrivals[step.destination].max())
        clock = max(clock, float(there)) + duration
    last = float(arrivals.max(initial=0.0))
    total = max(clock, last)
    return Cost(total, total - last)


def most_sent(schedule: Schedule, size: int, since: int = 0) -> int:
    """Return the bytes that the busiest rank sends from round `since` on."""
    sent = np.zeros(schedule.ranks, np.int64)
    for step in schedule.rounds[since:]:
        np.add.at(sent, step.source, sizes_of(schedule, step, size))
    return int(sent.max())


def critical_delay(schedule: Schedule, other: Schedule, size: int, links: Links) -> float:
    """Return by how many seconds the straggler must be late for a schedule to beat another.

    The result is 0 where the schedule is always faster, infinity where it never is. Both schedules
    wait for the straggler of `schedule`.
    """
    straggler = schedule.straggler
    if straggler is None:
        raise ValueError(f"{schedule.name} expects no straggler, so it has no critical delay")
    hidden, exposed = _parts(_timed(schedule, size, links), links, straggler)
    others_hidden, others_exposed = _parts(_timed(other, size, links), links, straggler)
    if hidden + exposed < others_hidden + others_exposed:
        return 0.0
    if exposed >= others_exposed:
        return math.inf
    return hidden + exposed - others_exposed


Timed = tuple[Round, float, bool]
"""A round, how long it takes, and whether the switch must be re-pointed for it."""


def _parts(timed: Iterable[Timed], links: Links, rank: int) -> tuple[float, float]:
    """Return the time before the first round that a rank is in, and the time from then on."""
    parts, met = [0.0, 0.0], False
    for step, duration, moved in timed:
        begin = links.reconfiguration * moved
        if not met and ((step.source == rank) | (step.destination == rank)).any():
            met = True
            parts[0] += begin
            begin = 0.0
        parts[met] += begin + duration
    return parts[0], parts[1]


def _timed(schedule: Schedule, size: int, links: Links) -> Iterator[Timed]:
    there: set[Pair] = set()
    for step in schedule.rounds:
        duration = links.seconds(float(sizes_of(schedule, step, size).max()))
        moved = False
        if links.reconfiguration:
            pairs = set(step.pairs)
            moved = not pairs <= there
            if moved:
                busy = {rank for pair in pairs for rank in pair}
                there = pairs | {pair for pair in there if busy.isdisjoint(pair)}
        yield step, duration, moved


def sizes_of(schedule: Schedule, step: Round, size: int) -> npt.NDArray[np.int64]:
    """Return the bytes of each send of a round; the first chunks are longer by one element.

    `size` is the size of one rank's buffer: all chunks, or in an all-to-all the n chunks of that
    rank. Raise ValueError where no rank sends, and for a negative size.
    """
    if not len(step):
        raise ValueError(f"{schedule.name} has a round in which no rank sends anything")
    if size < 0:
        raise ValueError(f"a buffer must have at least 0 bytes, not {size}")
    of_a_rank = schedule.ranks if schedule.collective == "all-to-all" else schedule.chunks
    short, longer = divmod(size, of_a_rank)

    def before(chunk: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        rest: npt.NDArray[np.int64] = chunk % of_a_rank
        return chunk // of_a_rank * size + rest * short + np.minimum(rest, longer)

    first = step.chunk.astype(np.int64)
    return before(first + step.count) - before(first)


def arrivals_of(schedule: Schedule, late: Mapping[int, float] | None) -> npt.NDArray[np.float64]:
    """Return when each rank arrives; raise ValueError for an unknown rank or an invalid delay."""
    arrivals = np.zeros(schedule.ranks)
    for rank, delay in (late or {}).items():
        if not 0 <= rank < schedule.ranks:
            raise ValueError(
                f"rank {rank} is not one of the {schedule.ranks} ranks, so it cannot be late"
            )
        if not _is_amount(delay):
            raise ValueError(f"rank {rank} cannot be late by {delay} s")
        arrivals[rank] = delay
    return arrivals


def _is_amount(value: float) -> bool:
    return math.isfinite(value) and value >= 0
