"""Schedules around a ring: ReduceScatter, AllGather, and both as an AllReduce.

Bandwidth-optimal for any number of ranks (Patarasuk and Yuan, 2009): each rank sends (n - 1) / n of
the buffer for either half, in n - 1 rounds, and always to the same neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.collectives.schedule import Operation, Round, Schedule


def ring(ranks: int) -> Schedule:
    """Return the AllReduce around a ring: ReduceScatter, then AllGather."""
    members = range(ranks)
    rounds = around(members, "reduce") + around(members, "copy")
    return Schedule("ring", "all-reduce", ranks, ranks, rounds)


def reduce_scatter(ranks: int) -> Schedule:
    """Return the ReduceScatter around a ring: rank r ends with the sum of chunk r."""
    rounds = around(range(ranks), "reduce")
    return Schedule("ring-reduce-scatter", "reduce-scatter", ranks, ranks, rounds)


def all_gather(ranks: int) -> Schedule:
    """Return the AllGather around a ring: rank r starts with chunk r."""
    return Schedule("ring-all-gather", "all-gather", ranks, ranks, around(range(ranks), "copy"))


def around(members: Sequence[int], operation: Operation) -> tuple[Round, ...]:
    """Return the rounds that reduce chunk i at the i-th member, or distribute it from there."""
    count = len(members)
    if count < 2:
        return ()
    source = np.array(members, np.int32)
    destination = np.roll(source, -1)
    place = np.arange(count, dtype=np.int32)
    behind = 1 if operation == "reduce" else 0
    return tuple(
        Round.alike(source, destination, (place - behind - step) % count, operation, 1)
        for step in range(count - 1)
    )
