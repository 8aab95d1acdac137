"""What the lines of a group cost: latency and rate, measured by messages there and back.

Neighbours in the order of the ranks play in pairs until everyone has served. They use the executor
of schedules itself, so that what a round of a schedule costs is what is measured. Small messages
give the latency. Two sizes of large ones give the rate: their difference leaves out the latency and
the credit that a token bucket has after a pause, which a busy line does not get.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from .parts import Part, Program
from .probe import LinkProbe
from .schedule import Group

SMALL = 1 << 10
LARGE = (256 << 10, 1 << 20)
SMALL_COUNT = 20
LARGE_COUNT = 5
_SHORTEST = 1e-6
"""Seconds: where medians of a busy machine cross, a line is fast, and not of negative rate."""


def ping_pong(group: Group) -> LinkProbe:
    """Measure the way to the next rank and back; all must call this.

    The long message is what the larger one has more than the smaller one.
    """
    found = {SMALL: 0.0, LARGE[0]: 0.0, LARGE[1]: float(LARGE[1])}  # a rank alone has no way
    for pairs in _turns(group.ranks):
        group.barrier()
        for server, other in pairs:
            if group.rank in (server, other):
                seconds = _rallies(group, server, other)
                found = seconds if group.rank == server else found
    long_seconds = max((found[LARGE[1]] - found[LARGE[0]]) / 2, _SHORTEST)
    latency, per_byte = found[SMALL] / 2, long_seconds / (LARGE[1] - LARGE[0])
    credit = LARGE[0] - (found[LARGE[0]] / 2 - latency) / per_byte
    credit = min(max(credit, 0.0), float(LARGE[0]))
    return LinkProbe(LARGE[1] - LARGE[0], long_seconds, SMALL, found[SMALL], credit)


def _turns(ranks: int) -> list[list[tuple[int, int]]]:
    """Return pairs of server and next rank; in a turn everyone is in one pair at most."""
    links = [(rank, (rank + 1) % ranks) for rank in range(ranks)]
    if ranks < 2:
        return []
    last = [links.pop()] if ranks % 2 else []
    return [turn for turn in (links[::2], links[1::2], last) if turn]


def _rallies(group: Group, server: int, other: int) -> dict[int, float]:
    """Play one pair's rallies; return the median seconds there and back of each size."""
    found = {}
    for size, count in ((SMALL, SMALL_COUNT), *((size, LARGE_COUNT) for size in LARGE)):
        vector = np.zeros(size // 4, np.float32)
        ways = _there_and_back(group.rank == server, server, other)
        seconds = []
        for _ in range(count + 1):  # the first one warms up
            begin = time.monotonic()
            for way in ways:
                group.run(way, vector)
            seconds.append(time.monotonic() - begin)
        found[size] = statistics.median(seconds[1:])
    return found


def _there_and_back(serves: bool, server: int, other: int) -> tuple[Program, Program]:
    """Return one side's part of a message there, and of one back.

    They are two schedules: within one, the bytes would come back while others are still under way.
    """
    part = (Part(0, other if serves else server, 0, 1, False),)
    out, back = Program(1, part, ()), Program(1, (), part)
    return (out, back) if serves else (back, out)
