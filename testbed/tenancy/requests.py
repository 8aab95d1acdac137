"""The input of policies: open requests for clients, and how many clients could serve each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from testbed.tenancy.attributes import Attributes, Constraints, is_eligible


@dataclass(frozen=True, slots=True)
class LastRound:
    """The durations of a job's previous round; times in seconds."""

    scheduling: float
    """From the request to the last client bound."""
    response: float
    """From the last client bound to the end of the round."""
    slowest: float
    """Speed of the slowest client bound."""


@dataclass(frozen=True, slots=True)
class Request:
    """One job's request for clients for its present round."""

    job: str
    constraints: Constraints
    registered: float
    """When the job registered, in seconds."""
    demand: int
    amount: int = 0
    """Clients bound so far."""
    draw: float = 0.0
    """Uniform in [0, 1), drawn when the job registered."""
    round_draw: float = 0.0
    """Uniform in [0, 1), drawn when the round was requested."""
    last: LastRound | None = None


Signature = frozenset[Constraints]
"""Which of the constraints in question a client meets. Clients with one signature are alike."""


@dataclass(frozen=True, slots=True)
class Census:
    """The number of known clients by signature."""

    clients: Mapping[Signature, int]
    waiting: Mapping[Signature, Sequence[float]] = field(default_factory=dict)
    """The speeds of those that wait for a job, in any order; only speed tiers need them."""

    def eligible(self, demanded: Constraints) -> int:
        """Return how many known clients meet the constraints."""
        return sum(count for held, count in self.clients.items() if demanded in held)


def signature(attributes: Attributes, groups: Iterable[Constraints]) -> Signature:
    """Return the signature of a client: the constraints that it meets."""
    return frozenset(demanded for demanded in groups if is_eligible(attributes, demanded))


def census(clients: Iterable[Attributes], groups: Iterable[Constraints]) -> Census:
    """Count clients by signature."""
    demanded = tuple(groups)
    return Census(Counter(signature(attributes, demanded) for attributes in clients))
