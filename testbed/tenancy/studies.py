"""The comparisons of policies.

The first two were defined before any result was known, the third after theirs (docs/tenancy.md).
Sizes are those of the evaluation of Propius: 1 800 clients and 5 jobs for utilisation, 6 000 and
15 000 clients and demands of 50 to 400 for completion times. Rounds and intervals between arrivals
are a twentieth of its 100 to 150 and 30 minutes, which does not change the load. Its scripts do not
define how clients are drawn, nor any load but the published one; both are chosen here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.plugins import kind
from testbed.tenancy.outcome import Outcome
from testbed.tenancy.settings import Settings
from testbed.tenancy.simulation import simulate
from testbed.tenancy.traces import Population, Trace, generate
from testbed.tenancy.workload import JobSpec, Mix, draw_jobs

SEEDS = (1, 2, 3, 4, 5, 6)
ENDLESS = 10**6
"""Rounds of a job that is to run for the whole simulation."""


@dataclass(frozen=True, slots=True)
class Study:
    """The clients, and the jobs at three loads, of one comparison."""

    population: Population
    loads: dict[str, Mix]
    settings: Settings
    methods: Sequence[str]

    def trace(self, seed: int) -> Trace:
        """Return the clients for a seed, which are the same for every load and method."""
        return generate(self.population, seed)

    def jobs(self, load: str, seed: int) -> tuple[JobSpec, ...]:
        """Return the jobs for a seed, which are the same for every method."""
        return draw_jobs(self.loads[load], seed)

    def digest(self, seed: int) -> str:
        """Return the SHA-256 of all inputs of the simulations with a seed."""
        whole = hashlib.sha256(self.trace(seed).digest.encode())
        for load in self.loads:
            for job in self.jobs(load, seed):
                whole.update(f"{load} {job}\n".encode())
        whole.update(str(self.settings).encode())
        return whole.hexdigest()

    def run(self, trace: Trace, load: str, seed: int, method: str) -> Outcome:
        """Simulate one method; `trace` is the trace for the seed."""
        policy = kind("scheduling_policies", method)
        made = policy.load()(policy.options())
        return simulate(trace, self.jobs(load, seed), policy.role, made, seed, self.settings)


def _five_jobs(*demands: int) -> Mix:
    return Mix(jobs=5, interval=0.0, rounds=(ENDLESS, ENDLESS), demands=demands)


UTILISATION = Study(
    Population(clients=1_800),
    {
        "half": _five_jobs(10, 20, 20, 40, 80),
        "published": _five_jobs(20, 40, 40, 80, 160),
        "double": _five_jobs(40, 80, 80, 160, 320),
    },
    Settings(horizon=7_200.0),
    ("irs", "fifo", "static-partition", "random-selection"),
)
"""Five jobs from the beginning, which never end; two hours."""

COMPLETION = Study(
    Population(clients=6_000),
    {
        "alone": Mix(jobs=20, interval=9_000.0, rounds=(5, 7)),
        "some": Mix(jobs=20, interval=450.0, rounds=(5, 7)),
        "published": Mix(jobs=20, interval=90.0, rounds=(5, 7)),
    },
    Settings(),
    ("irs", "fifo", "random", "srsf"),
)
"""20 jobs that arrive one after the other, until all have finished."""

MANY_JOBS = Study(
    Population(clients=15_000, attribute_width=1.0),
    {
        "alone": Mix(jobs=20, interval=9_000.0, rounds=(5, 7)),
        "contended": Mix(jobs=100, interval=10.0, rounds=(5, 7)),
    },
    Settings(),
    ("irs", "fifo", "random", "srsf"),
)
"""As `COMPLETION`, with more clients: of those that meet the constraints of a job, more are
available at a time than a round asks for. Under the load `contended` 100 jobs ask for them."""

ONE_JOB = Study(
    MANY_JOBS.population,
    {"alone": Mix(jobs=1, interval=0.0, rounds=(5, 7))},
    Settings(),
    ("irs", "fifo", "fifo-offline"),
)
"""One of those jobs, so that nothing contends: some of a load `alone` overlap another."""
