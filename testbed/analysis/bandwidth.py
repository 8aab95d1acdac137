"""Compute the bandwidths of timed collectives as nccl-tests defines them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from testbed.analysis.clocks import Clocks
from testbed.analysis.grouping import grouped
from testbed.analysis.metric_definitions import size_name
from testbed.analysis.nccl import COLLECTIVES, bus_factor
from testbed.analysis.step_reports import finished_steps
from testbed.events import Event


def bandwidths(events: Iterable[Event], clocks: Clocks, ranks: int) -> dict[str, float]:
    """Return time, algbw and busbw of every message size, as medians over the iterations.

    An iteration lasts from the last rank's entry, as every rank waits for all others, to the last
    rank's exit. Bandwidths are in bit/s; names are those of `size_name`. A size whose collectives
    are shorter than the error of the hosts' clocks is left out. In a mesh all groups along a
    dimension run at once, of so many ranks as one of them has; one of a single rank has no
    bandwidth. A sample is of an AllReduce unless its `operation` names another collective; one that
    nccl-tests does not have has no busbw, and a size of several collectives has no values.
    """
    samples = [e for e in events if e.kind == "sample" and "algorithm" not in e.data]
    values: dict[str, float] = {}
    for (size, dimension), group in sorted(grouped(samples, _size_and_dimension).items()):
        times = [step.collective for step in finished_steps(group, clocks, ranks)]
        seconds = statistics.median(times) if times else 0.0
        in_group = len(group[0].data["members"]) if dimension else ranks
        operation, *others = {sample.data.get("operation", "all_reduce") for sample in group}
        if seconds > 0 and not others and not (dimension and in_group < 2):
            algbw = size * 8 / seconds
            name = size_name(size) + (f"_along_{dimension}" if dimension else "")
            values[f"time_{name}"] = seconds
            values[f"algbw_{name}"] = algbw
            if operation in COLLECTIVES:
                values[f"busbw_{name}"] = algbw * bus_factor(in_group, operation)
    return values


def _size_and_dimension(sample: Event) -> tuple[int, str]:
    return sample.data["size"], sample.data.get("dimension", "")
