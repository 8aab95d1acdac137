"""Generate federated-learning jobs for the simulation."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from random import Random

from testbed.tenancy.attributes import Constraints, constraints
from testbed.tenancy.traces import ClientTrace

TRAINING_FACTOR = 3.0
"""A sample trained costs so many times one inferred: forward, and twice as much backward."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job, and the work of a client for one round of it."""

    id: str
    arrival: float
    """Seconds from the beginning."""
    rounds: int
    demand: int
    """Results that a round needs."""
    asked: int
    """Clients that a round asks for, as some are slow or vanish."""
    public: Constraints
    private: Constraints
    samples: int
    """Samples that each client trains on in a round: batch × local steps."""
    model: float
    """Size of the model in kbit; it goes to the client and back."""

    def task_time(self, client: ClientTrace) -> float:
        """Return seconds of computation and transfer (FedScale's model, as Propius uses it)."""
        computing = TRAINING_FACTOR * self.samples * client.latency_per_sample / 1000.0
        return computing + 2.0 * self.model / client.rate


LEVELS = tuple(
    constraints(dict(zip(("cpu_f", "ram", "fp16_mem", "android_os"), least, strict=True)))
    for least in ((3.0, 2.0, 400.0, 4.0), (6.0, 4.0, 800.0, 6.0), (7.0, 6.0, 900.0, 7.0))
)
"""The levels of constraints that Propius was evaluated with."""
MODELS = {"femnist": 112_000.0, "speech": 680_000.0, "openimage": 112_000.0}
"""kbit: MobileNetV2 (3.5 million parameters of 4 bytes), ResNet-34 (21.3 million), MobileNetV2."""


@dataclass(frozen=True, slots=True)
class Mix:
    """The distributions of jobs: uniform integers between two inclusive bounds."""

    jobs: int
    interval: float
    """Mean seconds between arrivals, which are a Poisson process; 0: all at the beginning."""
    rounds: tuple[int, int]
    demands: tuple[int, ...] = ()
    """The demand of each job; empty: drawn from `demand`."""
    demand: tuple[int, int] = (50, 400)
    over_selection: tuple[float, float] = (1.2, 1.3)
    """Clients asked for over results needed, uniform."""
    batch: int = 20
    steps: int = 20
    least_samples: float = 32.0
    """Data that a client must have: the private constraint."""

    @property
    def text(self) -> str:
        """Return all parameters in one line, in the order of their definition."""
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())


def draw_jobs(mix: Mix, seed: int) -> tuple[JobSpec, ...]:
    """Return the jobs drawn from a mix, which depend only on the mix and the seed."""
    chance = Random(f"{seed} {mix.text}")
    arrival = 0.0
    jobs = []
    for number in range(mix.jobs):
        demand = mix.demands[number] if mix.demands else chance.randint(*mix.demand)
        jobs.append(
            JobSpec(
                id=f"job{number}",
                arrival=round(arrival, 3),
                rounds=chance.randint(*mix.rounds),
                demand=demand,
                asked=math.ceil(demand * chance.uniform(*mix.over_selection)),
                public=chance.choice(LEVELS),
                private=constraints({"samples": mix.least_samples}),
                samples=mix.batch * mix.steps,
                model=MODELS[chance.choice(sorted(MODELS))],
            )
        )
        arrival -= mix.interval * math.log(1.0 - chance.random())
    return tuple(jobs)
