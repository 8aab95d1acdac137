"""Descriptor of the job that simulates jobs which share clients; importing it loads no job code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from testbed.jobs.option_checks import check_counts
from testbed.plugins import Kind, kinds

LOADS = {
    "utilisation": ("half", "published", "double"),
    "completion": ("alone", "some", "published"),
}
"""The loads of each study."""
_MOST_CLIENTS = 100_000


@dataclass(frozen=True, slots=True)
class ClientsModelOptions:
    """Federated-learning jobs that share the clients of a seeded trace under a policy."""

    study: Literal["utilisation", "completion"]
    """Five jobs without an end on 1 800 clients for two hours, or 20 jobs on 6 000 clients until
    all have finished."""
    load: str
    """`half`, `published` or `double` of the demands; or how often jobs come: `alone`, `some`,
    `published`."""
    policy: str
    """A scheduling policy, or a baseline."""
    against: str = ""
    """Another one, on the same trace: gains are over that."""
    clients: int | None = None
    """Without it, as many as the study has."""

    def __post_init__(self) -> None:
        """Refuse loads and policies that there are none of, and sizes that take too long."""
        if self.load not in LOADS[self.study]:
            known = ", ".join(LOADS[self.study])
            raise ValueError(f"the study {self.study} has the loads {known}, and not {self.load!r}")
        for name in (self.policy, self.against):
            if name and name not in (known_policies := kinds("scheduling_policies")):
                known = ", ".join(sorted(known_policies))
                raise ValueError(f"{name!r} is no scheduling policy; there are {known}")
        if self.clients is not None:
            check_counts(self, "clients")
            if self.clients > _MOST_CLIENTS:
                raise ValueError(f"clients must be at most {_MOST_CLIENTS}, not {self.clients}")

    def measures(self) -> Iterator[str]:
        """Yield the metrics that the model computes."""
        yield from ("inputs", "utilisation", "useful_share", "over_assigned", "scheduling_time")
        yield from ("response_time", "clients_bound")
        yield from ("utilisation_gain",) if self.against else ()
        if self.study == "completion":
            yield from ("completion_time", "jobs_finished")
            yield from ("completion_gain",) if self.against else ()


CLIENTS_MODEL = Kind(
    "federated-learning jobs that share clients under a policy, in simulation; nothing is run",
    "testbed.jobs.clients_model:ClientsModel",
    options=ClientsModelOptions,
    role="model",
)
