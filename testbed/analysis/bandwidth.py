"""Compute the bandwidths of timed collectives as nccl-tests defines them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from testbed.analysis.clocks import Clocks
from testbed.analysis.grouping import grouped
from testbed.analysis.metric_definitions import size_name
from testbed.analysis.steps import finished_steps
from testbed.events import Event


def bus_factor(ranks: int) -> float:
    """Return the factor busbw / algbw of an AllReduce over `ranks` ranks: 2 (n - 1) / n."""
    return 2 * (ranks - 1) / ranks


def bandwidths(events: Iterable[Event], clocks: Clocks, ranks: int) -> dict[str, float]:
    """Return time, algbw and busbw of every message size, as medians over the iterations.

    An iteration lasts from the last rank's entry, as every rank waits for all others, to the last
    rank's exit. Bandwidths are in bit/s; names are those of `size_name`. A size whose collectives
    are shorter than the error of the hosts' clocks is left out.
    """
    samples = [e for e in events if e.kind == "sample" and "algorithm" not in e.data]
    values: dict[str, float] = {}
    for size, group in sorted(grouped(samples, lambda sample: sample.data["size"]).items()):
        times = [step.collective for step in finished_steps(group, clocks, ranks)]
        seconds = statistics.median(times) if times else 0.0
        if seconds > 0:
            algbw = size * 8 / seconds
            name = size_name(size)
            values[f"time_{name}"] = seconds
            values[f"algbw_{name}"] = algbw
            values[f"busbw_{name}"] = algbw * bus_factor(ranks)
    return values
