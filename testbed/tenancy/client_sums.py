"""Sums over clients, of which a formula computes what jobs get from them.

Sums of several sets of clients can be added, so clients are summed where they are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.tenancy.attributes import Constraints, is_eligible
from testbed.tenancy.traces import ClientTrace
from testbed.tenancy.workload import JobSpec

Numbers = npt.NDArray[np.float64]
Demand = tuple[Constraints, Constraints]
"""The public and the private constraints of a job."""

GRID = 60
"""Seconds from one instant at which available clients are counted to the next."""
LONGEST = 14_400
"""Seconds: longer sessions are counted as this long. No task takes that long."""
_CELLS = 72
CELL = 1.1
"""Clients whose latencies, and whose rates, are in one cell by powers of this are of one type."""


@dataclass(frozen=True, slots=True)
class ClientSums:
    """Sums over clients whose availability repeats every `period` seconds.

    A client's type is what it meets of the demands, and the cells of its latency and its rate.
    """

    period: float
    demands: tuple[Demand, ...]
    here: Numbers
    """Clients available at each instant of a grid over the period."""
    sessions: Numbers
    """By whole seconds, rounded up: sessions of that length."""
    types: Numbers
    """By type: client-seconds of availability, and sums over these of milliseconds a sample and of
    seconds a kbit."""

    def __add__(self, other: ClientSums) -> ClientSums:
        here, sessions, types = (
            getattr(self, name) + getattr(other, name) for name in ("here", "sessions", "types")
        )
        return ClientSums(self.period, self.demands, here, sessions, types)


def demands_of(jobs: Sequence[JobSpec]) -> tuple[Demand, ...]:
    """Return what jobs demand of clients, each once."""
    return tuple(sorted({(job.public, job.private) for job in jobs}))


def sums_of(clients: Sequence[ClientTrace], period: int, demands: tuple[Demand, ...]) -> ClientSums:
    """Return the sums over clients of a trace with a period in ms."""
    spans = [(at, *span) for at, client in enumerate(clients) for span in client.available]
    owner, start, end = np.array(spans, np.int64).reshape(-1, 3).T
    steps = period // (1000 * GRID)
    begins, ends = (
        np.bincount(-(-at // (1000 * GRID)), minlength=steps + 1) for at in (start, end)
    )
    length = (end - start) / 1000
    there = np.bincount(owner, length, len(clients))
    types = [_type(client, demands) for client in clients]
    latency = np.array([client.latency_per_sample for client in clients])
    per_kbit = 1.0 / np.array([client.rate for client in clients])
    size = 2 ** len(demands) * _CELLS**2
    whole = np.minimum(np.ceil(length), LONGEST).astype(np.int64)
    return ClientSums(
        period / 1000,
        demands,
        np.cumsum(begins - ends)[:steps].astype(float),
        np.bincount(whole, minlength=LONGEST + 1).astype(float),
        np.array([np.bincount(types, there * of, size) for of in (1.0, latency, per_kbit)]),
    )


def meets(demands: int, demand: int) -> npt.NDArray[np.bool_]:
    """Return which types of clients meet one of so many demands."""
    types = np.arange(2**demands * _CELLS**2)
    return np.asarray((types // _CELLS**2 >> demand) % 2 == 1)


def _type(client: ClientTrace, demands: Sequence[Demand]) -> int:
    had = {"samples": float(client.samples)}
    found = 0
    for bit, (public, private) in enumerate(demands):
        found |= (is_eligible(client.attributes, public) and is_eligible(had, private)) << bit
    for value in (client.latency_per_sample, client.rate / 200):
        cell = int(math.log(value, CELL)) if value > 1 else 0
        found = found * _CELLS + min(cell, _CELLS - 1)
    return found
