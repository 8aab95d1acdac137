"""What a trace has, in a few numbers: who is there, for how long, and how fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from testbed.tenancy.traces import Trace

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""The shares of which quantiles are given."""
_INSTANTS = 1_000


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Quantiles of what clients or their sessions have, at `LEVELS`."""

    name: str
    unit: str
    values: tuple[float, ...]
    """Empty where there is nothing."""


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """A trace in numbers."""

    clients: int
    period: float
    """Seconds until it repeats."""
    sessions: int
    available_share: float
    """Of the period, of a client, on average."""
    never: int
    """Clients that are never there."""
    digest: str
    """SHA-256 of the trace in its canonical form."""
    quantiles: tuple[Quantiles, ...]


def summary(trace: Trace) -> TraceSummary:
    """Return the numbers of a trace."""
    clients = trace.clients
    spans = [(end - start) / 1000 for each in clients for start, end in each.available]
    shares = [sum(end - start for start, end in each.available) / trace.period for each in clients]
    rows = (
        ("clients at once", "1", _at_once(trace)),
        ("time available", "%", [100 * share for share in shares]),
        ("session", "s", spans),
        ("computation", "ms a sample", [each.latency_per_sample for each in clients]),
        ("communication", "kbit/s", [each.rate for each in clients]),
        ("samples", "1", [float(each.samples) for each in clients]),
    )
    return TraceSummary(
        len(clients),
        trace.period / 1000,
        len(spans),
        trace.available_share,
        sum(not each.available for each in clients),
        trace.digest,
        tuple(Quantiles(name, unit, _quantiles(values)) for name, unit, values in rows),
    )


def _at_once(trace: Trace) -> Sequence[float]:
    """Return how many clients are there, at instants spread evenly over the period."""
    at = np.arange(_INSTANTS) * trace.period / _INSTANTS
    edges = np.array([span for each in trace.clients for span in each.available], np.int64).reshape(
        -1, 2
    )
    come, gone = (np.searchsorted(np.sort(edge), at, "right") for edge in edges.T)
    return [float(number) for number in come - gone]


def _quantiles(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(map(float, np.quantile(values, LEVELS))) if values else ()
