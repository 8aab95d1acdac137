"""Measure the rate and latency of a job's connections before it runs.

In a ring all ranks send to the next rank at the same time, as in an AllReduce: a long message gives
the rate, and short ones after a pause show the burst that a token bucket lets pass at wire speed.
In a group, pairs of neighbouring ranks take turns with messages in both directions. They use the
executor of schedules, so that the cost of a round is measured. Small messages give the latency. Two
sizes of large messages give the rate: their difference excludes the latency, and the burst after a
pause, which a busy line does not have.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .connections import NEXT, PREVIOUS
from .group import Group
from .rank_schedule import Part, RankSchedule
from .ring import Ring
from .state_transfer import receive_opening
from .tasks import Task, receive_all, run, send_all, sleep_until

LONG = 8 << 20
LEAD = LONG // 8
"""Bytes at the head of the long message that are not timed: the bucket's credit and TCP's start."""

SHORT = 64 << 10
SHORT_COUNT = 5
PAUSE = 0.05

_PIECE = 256 << 10

SMALL = 1 << 10
LARGE = (256 << 10, 1 << 20)
SMALL_COUNT = 20
LARGE_COUNT = 5
_SHORTEST = 1e-6
"""Seconds: where medians of a busy machine cross, a line is fast, and not of negative rate."""


@dataclass(frozen=True)
class LinkProbe:
    """The measured rate and latency of the links beside one rank, by its own clock.

    `long_bytes` travelled one way in `long_seconds`. `short_seconds` is the median time from
    sending `short_bytes` until the answer: in a ring one byte, in a group as many as were sent.
    """

    long_bytes: int
    long_seconds: float
    short_bytes: int
    short_seconds: float
    credit: float = 0.0
    """Bytes that a line lets pass at once after a pause, where that was measured."""


def probe_ring(ring: Ring) -> LinkProbe:
    """Measure the links of a ring; every rank must call this. Raise the errors of the ring."""
    size = LONG + SHORT * SHORT_COUNT
    instants: list[float] = []
    opening, expected = ring.opening(b"PROB", size), ring.expected(b"PROB", size)
    run(ring.connections, _send_long(ring, opening), _receive_long(ring, expected, instants))
    ring.barrier()  # a rank that still sends its long message would answer late
    seconds: list[float] = []
    run(ring.connections, _send_short(ring, seconds), _answer_short(ring))
    begin, end = instants
    return LinkProbe(LONG - LEAD, end - begin, SHORT, statistics.median(seconds))


def _send_long(ring: Ring, opening: bytes) -> Task:
    yield from send_all(ring.connections, NEXT, opening)
    piece = bytes(_PIECE)
    for _ in range(LONG // _PIECE):
        yield from send_all(ring.connections, NEXT, piece)


def _receive_long(ring: Ring, opening: bytes, instants: list[float]) -> Task:
    """Take the long message; say when its head and when all of it had arrived."""
    yield from receive_opening(ring.connections, opening, PREVIOUS)
    buffer = bytearray(_PIECE)
    for size in (LEAD, LONG - LEAD):
        for _ in range(size // _PIECE):
            yield from receive_all(ring.connections, PREVIOUS, buffer)
        instants.append(time.monotonic())


def _send_short(ring: Ring, seconds: list[float]) -> Task:
    """Send short messages to the next rank, each after a pause; time each until its answer."""
    message, answer = bytes(SHORT), bytearray(1)
    for _ in range(SHORT_COUNT):
        yield from sleep_until(time.monotonic() + PAUSE)
        begin = time.monotonic()
        yield from send_all(ring.connections, NEXT, message)
        yield from receive_all(ring.connections, NEXT, answer)
        seconds.append(time.monotonic() - begin)


def _answer_short(ring: Ring) -> Task:
    """Answer the short messages of the previous rank."""
    buffer = bytearray(SHORT)
    for _ in range(SHORT_COUNT):
        yield from receive_all(ring.connections, PREVIOUS, buffer)
        yield from send_all(ring.connections, PREVIOUS, b"!")


def probe_pairs(group: Group) -> LinkProbe:
    """Measure the link to the next rank in both directions; every rank of the group calls this.

    The long message of the result is the difference of the larger and the smaller one.
    """
    found = {SMALL: 0.0, LARGE[0]: 0.0, LARGE[1]: float(LARGE[1])}  # for a rank alone
    for pairs in _turns(group.ranks):
        group.barrier()
        for first, second in pairs:
            if group.rank in (first, second):
                seconds = _round_trips(group, first, second)
                found = seconds if group.rank == first else found
    long_seconds = max((found[LARGE[1]] - found[LARGE[0]]) / 2, _SHORTEST)
    latency, per_byte = found[SMALL] / 2, long_seconds / (LARGE[1] - LARGE[0])
    credit = LARGE[0] - (found[LARGE[0]] / 2 - latency) / per_byte
    credit = min(max(credit, 0.0), float(LARGE[0]))
    return LinkProbe(LARGE[1] - LARGE[0], long_seconds, SMALL, found[SMALL], credit)


def _turns(ranks: int) -> Iterator[list[tuple[int, int]]]:
    """Yield pairs of a rank and its next; in a turn each rank is in one pair at most."""
    pairs = [(rank, (rank + 1) % ranks) for rank in range(ranks)] if ranks > 1 else []
    last = [pairs.pop()] if ranks % 2 and pairs else []
    yield from filter(None, (pairs[::2], pairs[1::2], last))


def _round_trips(group: Group, first: int, second: int) -> dict[int, float]:
    """Return the median seconds there and back of each size, between one pair of ranks."""
    found = {}
    there, back = Part(0, second, 0, 1, False), Part(0, first, 0, 1, False)
    # Two schedules: within one, the bytes would come back while others are still under way.
    if group.rank == first:
        schedules = RankSchedule(1, (there,), ()), RankSchedule(1, (), (there,))
    else:
        schedules = RankSchedule(1, (), (back,)), RankSchedule(1, (back,), ())
    for size, count in ((SMALL, SMALL_COUNT), *((size, LARGE_COUNT) for size in LARGE)):
        vector = np.zeros(size // 4, np.float32)
        seconds = []
        for _ in range(count + 1):  # the first one warms up
            begin = time.monotonic()
            for schedule in schedules:
                group.run(schedule, vector)
            seconds.append(time.monotonic() - begin)
        found[size] = statistics.median(seconds[1:])
    return found
