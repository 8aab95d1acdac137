"""The cost of a schedule by the α-β model when ranks wait for their peers only.

In `cost` a round begins when the one before has ended at all ranks. Ranks on hosts go on as soon as
they can: a rank sends once its earlier sends and receives are done, and receives the next message
once it has received the one before, also while it still sends. Where all ranks have equal work in
every round, both models agree, except for the burst that a rate limiter lets pass after a pause.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise

import numpy as np

from testbed.collectives.cost import Links, arrivals_of, sizes_of
from testbed.collectives.schedule import Round, Schedule


def seconds_at_own_pace(
    schedule: Schedule,
    size: int,
    links: Links,
    late: Mapping[int, float] | None = None,
    changes: Collection[int] = (),
) -> tuple[float, float]:
    """Return the total time of a schedule, and its time since the last rank's arrival.

    `size` is in bytes. `late` maps ranks to the seconds by which they arrive after the others.
    `changes` are the rounds before which the switch is re-pointed: that begins when all ranks that
    act between the previous change and the next one are done.
    """
    sends = arrivals_of(schedule, late)
    receives, arrived = sends.copy(), float(sends.max())
    busy = np.full((schedule.ranks, schedule.ranks), -np.inf)  # until when each line was
    before: set[int] = set()
    for first, behind in pairwise(sorted({0, *changes, len(schedule.rounds)})):
        steps = schedule.rounds[first:behind]
        acting = {rank for step in steps for pair in step.pairs for rank in pair}
        if first in changes:
            concerned = sorted(before | acting)
            there = max(sends[concerned].max(), receives[concerned].max()) + links.reconfiguration
            sends[concerned] = receives[concerned] = there
        for step in steps:
            sizes = sizes_of(schedule, step, size)
            sends, receives = _after(step, sizes, links, sends, receives, busy)
        before = acting
    total = float(max(sends.max(), receives.max()))
    return total, total - arrived


def _after(
    step: Round,
    sizes: np.ndarray,
    links: Links,
    sends: np.ndarray,
    receives: np.ndarray,
    busy: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return when each rank has sent and when it has received all up to this round."""
    here, peer = step.source, step.destination
    begins = np.maximum.reduce([sends[here], receives[here], receives[peer]])
    free = np.minimum(links.credit * links.beta, begins - busy[here, peer])
    ends = begins + links.alpha + np.maximum(sizes * links.beta - free, 0)
    busy[here, peer] = ends
    sent, received = sends.copy(), receives.copy()
    sent[here], received[peer] = ends, ends
    return sent, received
