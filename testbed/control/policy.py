"""The interface of recovery policies: a pure step from an observation to commands."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from testbed.control.protocol import Command, Means, Observation
from testbed.control.slices import RackFibres
from testbed.fabric.circuits import Matching
from testbed.fabric.topology import ring


@dataclass(frozen=True, slots=True)
class Situation:
    """The running job that a policy starts from: its hosts, spares and permitted fences.

    `hosts` are the ranks' hosts in rank order, `spares` the hosts that could replace one of them,
    `fences` the means of fencing that the lab permits for each host. `replicas` are groups of ranks
    with the same state, in which circuits join each rank to the one before and the one after it. On
    a `rack`, whose circuits pass several switches, `routed` are those of the ring with their
    fibres.
    """

    hosts: tuple[str, ...]
    spares: tuple[str, ...]
    ports: Mapping[str, tuple[str, ...]]
    generation: int
    fences: Mapping[str, Collection[Means]]
    replicas: tuple[tuple[int, ...], ...] = ()
    rack: RackFibres | None = None
    routed: Matching = frozenset()

    @property
    def ring(self) -> Matching:
        """Return the circuits of the ring of hosts."""
        return ring(self.hosts, self.ports) if self.rack is None else self.routed


class Policy(Protocol):
    """A recovery policy, made from its options; its states are immutable data of its own."""

    def begin(self, situation: Situation) -> Any:
        """Return the policy's state for a job that runs without failures."""

    def step(self, state: Any, observation: Observation) -> tuple[Any, tuple[Command, ...]]:
        """Return the policy's next state and the commands to carry out."""

    def is_recovering(self, state: Any) -> bool:
        """Tell whether a recovery is in progress."""
