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
    "many-jobs": ("alone", "contended"),
    "one-job": ("alone",),
    "scale": ("light", "contended"),
}
"""The loads of each study."""
_MOST_CLIENTS = {"simulation": 100_000, "formula": 1_000_000}
_EXPECTED = (
    *("utilisation", "completion_time", "scheduling_time", "response_time", "clients_bound"),
)
"""The metrics that the formula gives."""


@dataclass(frozen=True, slots=True)
class ClientsModelOptions:
    """Federated-learning jobs that share the clients of a seeded trace under a policy."""

    study: Literal["utilisation", "completion", "many-jobs", "one-job", "scale"]
    """Five jobs without an end on 1 800 clients for two hours, or 20 jobs on 6 000 clients until
    all have finished; `many-jobs`: up to 100 such jobs on 15 000 clients; `one-job`: one of them;
    `scale`: such jobs, whose demands grow with the number of clients."""
    load: str
    """`half`, `published` or `double` of the demands; or how often jobs come: `alone`, `some`,
    `published`; or, of `many-jobs`, `alone` or `contended`; of `one-job`, `alone`; or, of `scale`,
    `light` or `contended`."""
    policy: str
    """A scheduling policy, or a baseline."""
    against: str = ""
    """Another one, on the same trace: gains are over that."""
    clients: int | None = None
    """Without it, as many as the study has."""
    by: Literal["simulation", "formula"] = "simulation"
    """What computes the metrics; the formula is for `scale` and knows no policy."""

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
            if self.clients > (most := _MOST_CLIENTS[self.by]):
                raise ValueError(f"clients must be at most {most} by {self.by}, not {self.clients}")
        if self.study != "scale" and self.by == "formula":
            raise ValueError(f"the formula is for the study scale, and not for {self.study}")
        if self.study == "scale" and self.against:
            raise ValueError("the study scale is compared with a formula, and takes no `against`")

    def measures(self) -> Iterator[str]:
        """Yield the metrics that the model computes."""
        if self.by == "formula":
            yield from ("inputs", *_EXPECTED)
            return
        yield from ("inputs", "utilisation", "useful_share", "over_assigned", "scheduling_time")
        yield from ("response_time", "clients_bound")
        yield from ("utilisation_gain",) if self.against else ()
        if self.study != "utilisation":
            yield from ("completion_time", "jobs_finished")
            yield from ("completion_gain",) if self.against else ()

    def predicts(self) -> Iterator[str]:
        """Yield the metrics of a simulation that the formula expects something of."""
        yield from _EXPECTED if self.study == "scale" and self.by == "simulation" else ()


CLIENTS_MODEL = Kind(
    "federated-learning jobs that share clients under a policy, in simulation; nothing is run",
    "testbed.jobs.clients_model:ClientsModel",
    options=ClientsModelOptions,
    role="model",
)
