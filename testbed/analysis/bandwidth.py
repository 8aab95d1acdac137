"""Timed collectives to bandwidths, as nccl-tests defines them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from itertools import groupby

from testbed.analysis.clocks import Clocks
from testbed.analysis.metric_definitions import size_name as size_name
from testbed.events import Event


def bus_factor(ranks: int) -> float:
    """Return busbw / algbw of an AllReduce: 2 (n - 1) / n."""
    return 2 * (ranks - 1) / ranks


def bandwidths(events: Iterable[Event], clocks: Clocks, ranks: int) -> dict[str, float]:
    """Return time, algbw and busbw of every size, medians over the iterations.

    An iteration lasts from the last rank's entry, as every rank waits for all to be there, to the
    last rank's exit. Bandwidths are in bit/s; names are those of `size_name`. A size that is over
    sooner than the hosts' clocks can tell is left out.
    """
    samples = [e for e in events if e.kind == "sample" and "algorithm" not in e.data]
    values: dict[str, float] = {}
    for size, group in groupby(sorted(samples, key=_size), _size):
        times = _iterations(list(group), clocks, ranks)
        seconds = statistics.median(times) if times else 0.0
        if seconds > 0:
            algbw = size * 8 / seconds
            name = size_name(size)
            values[f"time_{name}"] = seconds
            values[f"algbw_{name}"] = algbw
            values[f"busbw_{name}"] = algbw * bus_factor(ranks)
    return values


def _size(event: Event) -> int:
    size: int = event.data["size"]
    return size


def _iterations(samples: list[Event], clocks: Clocks, ranks: int) -> list[float]:
    times = []
    by_iteration: dict[int, list[Event]] = {}
    for sample in samples:
        by_iteration.setdefault(sample.data["iteration"], []).append(sample)
    for group in by_iteration.values():
        stamps = [
            (clocks.instant(s, s.data["begin"]), clocks.instant(s, s.data["end"])) for s in group
        ]
        known = [(b.middle, e.middle) for b, e in stamps if b is not None and e is not None]
        if len(known) == ranks:
            times.append(max(e for _, e in known) - max(b for b, _ in known))
    return times
