"""Descriptor of the job whose clients are processes; importing it loads no job code."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from testbed.jobs.option_checks import check_counts
from testbed.jobs.program_descriptors import Pattern
from testbed.plugins import Kind, kinds
from testbed.units import Bytes, Seconds

_MOST_CLIENTS = 200
"""Each is a process, and has seven of the images or more."""
_METRICS = {
    "accuracy_slow": Pattern("slow: ([0-9.]+) % of test digits", "%", "higher"),
    "accuracy_fast": Pattern("fast: ([0-9.]+) % of test digits", "%", "higher"),
    "off_by": Pattern("off by ([0-9.]+) millionths", "1", "lower"),
    "rounds_ended": Pattern("^([0-9]+) rounds ended", "1", "higher"),
    "rounds_short": Pattern(" ([0-9]+) of them short", "1", "lower"),
    "processes_started": Pattern("^([0-9]+) client processes", "1", "neither"),
    "processes_at_once": Pattern(" ([0-9]+) at once", "1", "neither"),
    "clients_vanished": Pattern("^([0-9]+) clients vanished", "1", "neither"),
    "tasks": Pattern("^([0-9]+) tasks", "1", "higher"),
    "tasks_overran": Pattern(" ([0-9]+) computed longer", "1", "lower"),
    "accepts_wasted": Pattern("^([0-9]+) acceptances were not bound", "1", "lower"),
    "updates_late": Pattern("told in time, ([0-9]+) too late", "1", "neither"),
    "client_utilisation": Pattern("clients worked ([0-9.]+) %", "%", "higher"),
    "trace_lag": Pattern("came and went ([0-9.]+) s late", "s", "lower"),
    "duration": Pattern("both jobs took ([0-9.]+) s", "s", "lower"),
}


@dataclass(frozen=True, slots=True)
class ClientTraceOptions:
    """The trace of clients that the processes obey: when they are there, and how fast they are."""

    seed: int | None = None
    """Draw it from a seed, as the simulation does."""
    files: tuple[str, ...] = ()
    """Or read it: one file of FedScale's form with capacity and availability, or one of each."""
    speedup: float = 600.0
    """Seconds of the trace that pass in a second of the run."""
    start: Seconds = 0.0
    """How far into the trace the run begins."""

    def __post_init__(self) -> None:
        """Refuse no trace or two, and time that does not pass."""
        if (self.seed is None) == (not self.files):
            raise ValueError("a trace has a seed, or files, and one of them only")
        if len(self.files) > 2:
            raise ValueError("files are one, or one of capacity and one of availability")
        if not 1 <= self.speedup <= 1e6:
            raise ValueError(f"speedup must be from 1 to 1000000, not {self.speedup:g}")


@dataclass(frozen=True, slots=True)
class FederatedOptions:
    """Two jobs that learn digits from clients that are processes on all hosts but the first."""

    ranks: int
    clients: int = 24
    """Processes, each with images of its own."""
    policy: str = "fifo"
    """A scheduling policy."""
    rounds: int = 15
    """Of each job."""
    demand: int = 8
    """Clients that a round asks for."""
    needed: int = 6
    """Updates that end it."""
    patience: Seconds = 10.0
    """After which a round ends with the updates that came."""
    ask_every: Seconds = 0.25
    """From one question of a client without an offer to the next."""
    model: Bytes = 14_000_000
    """The model for whose transfers clients with a trace wait; that of the digits has 2.7 kB."""
    trace: ClientTraceOptions | None = None
    """When clients are there, and how fast they are; without it always, and as fast as they can."""

    def __post_init__(self) -> None:
        """Refuse what no round could have, and policies that there are none of."""
        check_counts(self, "ranks", least=2)
        check_counts(self, "clients", "rounds", "demand", "needed", "model")
        if self.clients > _MOST_CLIENTS:
            raise ValueError(f"clients must be at most {_MOST_CLIENTS}, not {self.clients}")
        if self.needed > self.demand:
            raise ValueError(f"a round of {self.demand} clients cannot have {self.needed} updates")
        if not (0 < self.patience < math.inf and 0 < self.ask_every < math.inf):
            raise ValueError("patience and ask_every must be above 0")
        known = kinds("scheduling_policies")
        if self.policy not in known:
            names = ", ".join(sorted(known))
            raise ValueError(f"{self.policy!r} is no scheduling policy; there are {names}")
        policy = known[self.policy]
        if policy.role == "baseline" and policy.load()(policy.options()).for_good:
            raise ValueError(
                f"by {self.policy} a client belongs to one job for good, which the services do not "
                "know; compare it by simulation, with a job clients-model"
            )

    @property
    def metrics(self) -> Mapping[str, Pattern]:
        """Return what is read from what the first rank prints."""
        return _METRICS

    def measures(self) -> tuple[str, ...]:
        """Return no metrics besides those in `metrics`."""
        return ()


FEDERATED = Kind(
    "federated learning over the services of Propius; clients are processes that obey a trace",
    "testbed.jobs.federated:Federated",
    options=FederatedOptions,
)
