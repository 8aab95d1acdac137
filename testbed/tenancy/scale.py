"""A study whose jobs ask for fixed shares of the clients, however many these are.

Its clients are drawn in parts, each from random streams of its own, so that parts can be computed
anywhere; the clients of a smaller study are the first of a larger one. Jobs are the same at every
size but for their demands. They come after half a day: a trace begins with all the clients that
are available then at one instant, who would ask in step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from testbed.tenancy.client_sums import ClientSums, demands_of, sums_of
from testbed.tenancy.settings import Settings
from testbed.tenancy.studies import Study
from testbed.tenancy.traces import DAY_MS, SHARD, ClientTrace, Population, Trace, generate_shard
from testbed.tenancy.workload import JobSpec, Mix, draw_jobs

REFERENCE = 6_000
"""The clients for which the demands of the loads are stated."""
PART = 10
"""Shards of a part."""
_BEGIN = 43_200.0


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the clients of a study, their sums, and the SHA-256 of both."""

    clients: tuple[ClientTrace, ...]
    sums: ClientSums
    digest: str


class ScaleStudy(Study):
    """A study whose clients are drawn in parts and whose demands grow with their number."""

    __slots__ = ()

    def jobs(self, load: str, seed: int) -> tuple[JobSpec, ...]:
        """Return the jobs for a seed, which are the same for every method and size."""
        share = self.population.clients / REFERENCE
        return tuple(_scaled(job, share) for job in draw_jobs(self.loads[load], seed))

    def trace(self, seed: int) -> Trace:
        """Return all clients for a seed."""
        return self.trace_of(self.part(seed, number).clients for number in range(self.parts))

    @property
    def parts(self) -> int:
        """Return the number of parts."""
        return -(-self.population.clients // (PART * SHARD))

    def part(self, seed: int, number: int) -> Part:
        """Draw the clients of one part."""
        first = number * PART
        past = min(first + PART, -(-self.population.clients // SHARD))
        shards = (generate_shard(self.population, seed, at) for at in range(first, past))
        clients = tuple(client for shard in shards for client in shard)
        demands = demands_of([job for load in self.loads for job in self.jobs(load, seed)])
        sums = sums_of(clients, self._period, demands)
        return Part(clients, sums, Trace(self._period, clients).digest)

    def trace_of(self, clients: Iterable[Sequence[ClientTrace]]) -> Trace:
        """Return the trace with the clients of all parts."""
        return Trace(self._period, tuple(client for part in clients for client in part))

    def digest_of(self, digests: Sequence[str], seed: int) -> str:
        """Return the SHA-256 of all inputs with a seed, of which those of all parts are known."""
        whole = hashlib.sha256(" ".join(digests).encode())
        for load in self.loads:
            for job in self.jobs(load, seed):
                whole.update(f"{load} {job}\n".encode())
        whole.update(str(self.settings).encode())
        return whole.hexdigest()

    @property
    def _period(self) -> int:
        return self.population.days * DAY_MS


def _scaled(job: JobSpec, share: float) -> JobSpec:
    demand = max(1, round(job.demand * share))
    asked = max(demand, round(job.asked * share))
    return replace(job, arrival=job.arrival + _BEGIN, demand=demand, asked=asked)


SCALE = ScaleStudy(
    Population(clients=REFERENCE),
    {
        "light": Mix(jobs=20, interval=450.0, rounds=(5, 7), demand=(25, 200)),
        "contended": Mix(jobs=20, interval=90.0, rounds=(5, 7)),
    },
    Settings(),
    ("fifo", "irs"),
)
"""20 jobs that arrive one after the other: so that few wait for clients, and as often and with the
demands that were published for Propius."""
