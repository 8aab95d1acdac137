"""Verify a schedule by carrying it out on symbolic contributions.

The verifier is independent of the code that makes schedules. It tracks, for each rank and chunk,
the set of ranks whose contribution is included: a reduce must join disjoint sets, a copy must add a
contribution, and in the end every rank that needs a chunk must have all contributions to it. A
second pass, backwards, finds sends whose outcome no rank uses.

In a schedule without problems no send can be left out. Its data reaches a rank that needs it, on a
path on which no copy replaces it. All sets that are joined to it on this path are disjoint from it,
so they do not depend on the send: without it the contribution would be missing at the end.

Sets are exact up to 512 ranks, and while they fit in 256 MiB. Beyond that each contribution is a
random 64-bit number and a set is the sum of its members, so that an error is missed with a
probability of about 1 in 2^64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from testbed.collectives.schedule import Flags, Numbers, Round, Schedule
from tests.unit.collectives.shape import (
    Problem,
    Trouble,
    conflicts,
    misshapen,
    straggler_violations,
)

__all__ = ["Problem", "Trouble", "problems", "verify"]

EXACT_RANKS = 512
EXACT_BYTES = 256 << 20

Words = npt.NDArray[np.uint64]


def verify(schedule: Schedule, *, exact: bool | None = None, seed: int = 0) -> None:
    """Raise ValueError with the first problem of a schedule, if it has any."""
    found = problems(schedule, exact=exact, seed=seed)
    if found:
        more = f" (and {len(found) - 1} more there)" if len(found) > 1 else ""
        raise ValueError(f"{schedule.name} of {schedule.ranks} ranks: {found[0]}{more}")


def problems(
    schedule: Schedule, *, exact: bool | None = None, seed: int = 0
) -> tuple[Problem, ...]:
    """Return the problems of the first wrong round, or else those of the end result.

    Rounds after a wrong round are not checked, as they would repeat its problems. `exact` chooses
    sets, otherwise random fingerprints with this `seed` are used.
    """
    begins, wanted = _task(schedule)
    early = schedule.early
    sets = _fit(schedule) if exact is None else exact
    holdings: _Holdings = _Sets(begins) if sets else _Fingerprints(begins, seed)
    for number, step in enumerate(schedule.rounds):
        found = misshapen(schedule, number, step) or conflicts(number, step)
        found = found or straggler_violations(schedule, early, number, step)
        found = found or _carried(holdings, number, step)
        if found:
            return tuple(found)
    found = _incomplete(holdings.complete(), wanted)
    return tuple(found or _unused(schedule, wanted))


def _fit(schedule: Schedule) -> bool:
    size = schedule.ranks * schedule.chunks * _words(schedule.ranks) * 8
    return schedule.ranks <= EXACT_RANKS and size <= EXACT_BYTES


def _words(ranks: int) -> int:
    return (ranks + 63) // 64


def _task(schedule: Schedule) -> tuple[Flags, Flags]:
    """Return who holds which chunk in the beginning, and who must have it in the end."""
    ranks, chunks = schedule.ranks, schedule.chunks
    rank, chunk = np.arange(ranks)[:, None], np.arange(chunks)
    every = np.ones((ranks, chunks), np.bool_)
    own = rank == chunk
    match schedule.collective:
        case "all-reduce":
            return every, every
        case "reduce-scatter":
            return every, own
        case "all-gather":
            return own, every
        case "all-to-all":
            return chunk // ranks == rank, chunk % ranks == rank
        case "chain":
            return every & (rank == 0), every & (rank == ranks - 1)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The sends of a round, cut into single chunks."""

    source: Numbers
    destination: Numbers
    chunk: Numbers
    reduces: Flags

    @classmethod
    def of(cls, step: Round) -> _Pieces:
        count = step.count
        if (count == 1).all():
            return cls(step.source, step.destination, step.chunk, step.reduces)
        behind = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        chunk = (np.repeat(step.chunk, count) + behind).astype(np.int32)
        source, destination = np.repeat(step.source, count), np.repeat(step.destination, count)
        return cls(source, destination, chunk, np.repeat(step.reduces, count))

    def named(self, number: int, wrong: Flags, trouble: Trouble, what: str) -> list[Problem]:
        """Return a problem for each transfer that is marked as wrong."""
        return [
            Problem(
                trouble,
                number,
                f"rank {self.source[at]} sends chunk {self.chunk[at]} to rank "
                f"{self.destination[at]}, {what}",
            )
            for at in np.flatnonzero(wrong)
        ]


def _carried(holdings: _Holdings, number: int, step: Round) -> list[Problem]:
    """Carry out a round on what the ranks hold, unless it has problems."""
    pieces = _Pieces.of(step)
    sent = holdings.of(pieces.source, pieces.chunk)
    own = holdings.of(pieces.destination, pieces.chunk)
    reduces, copies = pieces.reduces, ~pieces.reduces
    absent = holdings.nothing(sent)
    bare = reduces & holdings.nothing(own)
    needless = copies & ~absent & holdings.within(sent, own)
    found = (
        pieces.named(number, absent, "missing", "which it does not hold")
        + pieces.named(number, bare, "missing", "which has nothing to add it to")
        + pieces.named(
            number, reduces & holdings.overlap(sent, own), "double", "which has part of it already"
        )
        + pieces.named(number, needless, "redundant", "which has all of it")
    )
    if not found:
        holdings.put(pieces.destination, pieces.chunk, holdings.joined(sent, own, reduces))
    return found


class _Holdings(Protocol):
    """What each rank holds of each chunk."""

    _held: Words

    def of(self, rank: Numbers, chunk: Numbers) -> Words:
        """Return copies of the contributions that these ranks hold of these chunks."""
        return self._held[rank, chunk]

    def put(self, rank: Numbers, chunk: Numbers, held: Words) -> None:
        """Set the contributions that these ranks hold of these chunks."""
        self._held[rank, chunk] = held

    def nothing(self, held: Words) -> Flags:
        """Return where no contribution is held."""

    def overlap(self, sent: Words, own: Words) -> Flags:
        """Return where `sent` and `own` have a contribution in common."""

    def within(self, sent: Words, own: Words) -> Flags:
        """Return where `own` includes all contributions of `sent`."""

    def joined(self, sent: Words, own: Words, reduces: Flags) -> Words:
        """Return the receiver's contributions after a reduce or a copy."""

    def complete(self) -> Flags:
        """Return which rank holds all contributions to which chunk."""


class _Sets(_Holdings):
    """Contributions as bits of words."""

    def __init__(self, begins: Flags) -> None:
        ranks, chunks = begins.shape
        self._held = np.zeros((ranks, chunks, _words(ranks)), np.uint64)
        for rank in range(ranks):
            self._held[rank, begins[rank], rank // 64] = np.uint64(1 << rank % 64)
        self._all = np.bitwise_or.reduce(self._held, axis=0)

    def nothing(self, held: Words) -> Flags:
        return _flags(~held.any(axis=-1))

    def overlap(self, sent: Words, own: Words) -> Flags:
        return _flags((sent & own).any(axis=-1))

    def within(self, sent: Words, own: Words) -> Flags:
        return _flags(~(sent & ~own).any(axis=-1))

    def joined(self, sent: Words, own: Words, reduces: Flags) -> Words:
        return np.where(reduces[:, None], sent | own, sent)

    def complete(self) -> Flags:
        return _flags((self._held == self._all).all(axis=-1))


class _Fingerprints(_Holdings):
    """Contributions as random numbers, sets as their sums modulo 2^64.

    Overlaps show in the end, when sums are not what they should be.
    """

    def __init__(self, begins: Flags, seed: int) -> None:
        words = np.random.default_rng(seed).integers(1, 2**64, len(begins), np.uint64)
        self._held = begins * words[:, None]
        self._all = self._held.sum(axis=0, dtype=np.uint64)

    def nothing(self, held: Words) -> Flags:
        return _flags(held == 0)

    def overlap(self, sent: Words, own: Words) -> Flags:
        return _flags(sent == own)

    def within(self, sent: Words, own: Words) -> Flags:
        return _flags(sent == own)

    def joined(self, sent: Words, own: Words, reduces: Flags) -> Words:
        return sent + own * reduces

    def complete(self) -> Flags:
        return _flags(self._held == self._all)


def _flags(values: npt.NDArray[np.bool_] | np.bool_) -> Flags:
    return np.asarray(values, np.bool_)


def _incomplete(complete: Flags, wanted: Flags) -> list[Problem]:
    return [
        Problem("incomplete", None, f"rank {rank} lacks some of chunk {chunk}, or has it twice")
        for rank, chunk in np.argwhere(wanted & ~complete)
    ]


def _unused(schedule: Schedule, wanted: Flags) -> list[Problem]:
    """Return the sends whose outcome is neither sent on nor wanted in the end."""
    used = wanted.copy()
    found = []
    for number in reversed(range(len(schedule.rounds))):
        pieces = _Pieces.of(schedule.rounds[number])
        matters = used[pieces.destination, pieces.chunk]
        found += pieces.named(number, ~matters, "unused", "where it is never used")
        replaced = ~pieces.reduces
        used[pieces.destination[replaced], pieces.chunk[replaced]] = False
        used[pieces.source[matters], pieces.chunk[matters]] = True
    return found
