"""Policies that score jobs: eligible jobs are offered to a client, highest score first.

Source: the table of policies in the code of Propius. A score is kept until the policy computes it
again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from testbed.tenancy.attributes import Attributes, is_eligible
from testbed.tenancy.requests import Request

MAX_OFFERS = 20
"""Jobs that a client is offered at a time."""
RANDOM_SCORES = 10.0
"""Scores of the policy `random` lie between 0 and this."""


class ScoringPolicy(Protocol):
    """The interface of a policy of role `online`; an instance holds the options."""

    each_round: bool
    """Whether a job is scored at each request for a round, and not only when it registers."""

    def score(self, request: Request) -> float:
        """Return the score of a job; higher ones are offered first."""


class Fifo:
    """First come, first served: by time of registration."""

    each_round = False

    def __init__(self, options: object = None) -> None:
        pass

    def score(self, request: Request) -> float:
        return -request.registered


class RandomScore:
    """A random score, drawn once when a job registers."""

    each_round = False

    def __init__(self, options: object = None) -> None:
        pass

    def score(self, request: Request) -> float:
        return RANDOM_SCORES * request.draw


class SmallestRemainingDemand:
    """Smallest remaining demand first (SRSF), evaluated when a round is requested."""

    each_round = True

    def __init__(self, options: object = None) -> None:
        pass

    def score(self, request: Request) -> float:
        return float(request.amount - request.demand)


def ranked(scored: Iterable[tuple[float, Request]]) -> list[Request]:
    """Return requests by score, highest first; then by registration, then by name."""
    order = sorted(scored, key=lambda pair: (-pair[0], pair[1].registered, pair[1].job))
    return [request for _, request in order]


def offers(ranking: Iterable[Request], attributes: Attributes) -> tuple[str, ...]:
    """Return the open jobs to offer to a client whose constraints it meets, best first.

    There are at most 20; a client that gets none of them asks again.
    """
    fit = (
        request.job
        for request in ranking
        if request.amount < request.demand and is_eligible(attributes, request.constraints)
    )
    return tuple(job for job, _ in zip(fit, range(MAX_OFFERS), strict=False))
