"""Metrics of an all-to-all over circuits that follow a table of time slots."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from itertools import pairwise

from testbed.analysis.grouping import grouped
from testbed.events import Event


def time_slot_values(samples: Iterable[Event]) -> dict[str, float]:
    """Return the medians over all ranks: of a cycle's time, a slot's dark time and its bytes.

    A cycle lasts from when a rank in an exchange is told that circuits are lit until it is told so
    of the same ones again. Bytes are those that a rank received in slots of a peer which had
    more than fitted in.
    """
    cycles, dark, received = list[float](), list[float](), list[float]()
    for sample in samples:
        uses = sample.data.get("slots", ())
        for told in grouped(uses, lambda use: use[0]).values():
            cycles += (after[1] - before[1] for before, after in pairwise(told))
        received += (use[2] for use in uses if use[3])
        dark += sample.data["changes"] if uses else ()
    found = {"cycle_time": cycles, "slot_dark": dark, "slot_bytes": received}
    return {name: statistics.median(each) for name, each in found.items() if each}
