"""Policies that divide the clients between groups of jobs every few seconds.

A region is a set of clients. Since clients come and go, it is stored as a rule on signatures: the
signature of a client determines its region.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from testbed.tenancy.attributes import Constraints
from testbed.tenancy.requests import Census, Request, Signature

PERIOD = 3.0
"""Seconds from one division of the clients to the next, as in the code of Propius."""


@dataclass(frozen=True, slots=True)
class Tier:
    """A range of client speeds, with both ends."""

    slowest: float
    fastest: float

    def __contains__(self, speed: float) -> bool:
        return self.slowest <= speed <= self.fastest


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that are offered to the clients of one region, in this order."""

    constraints: Constraints | None
    """What all of them demand; None: they differ, and each offer has to be looked at."""
    jobs: tuple[Request, ...]
    tier: Tier | None = None
    """The clients that the first job is offered to; None: all of the region."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Moves the clients for which two groups are both eligible from one region to the other."""

    giver: int
    taker: int


@dataclass(frozen=True, slots=True)
class Division:
    """The groups of jobs, scarcest first, and the rule for the region of each."""

    groups: tuple[Group, ...]
    transfers: tuple[Transfer, ...] = ()

    def region_of(self, met: Signature) -> int | None:
        """Return the number of the group whose region a client is in, or None.

        Regions are disjoint, and clients are eligible for the group of their region.
        """
        owner = self._first(met)
        for transfer in self.transfers:
            if owner == transfer.giver and self.groups[transfer.taker].constraints in met:
                owner = transfer.taker
        return owner

    def _first(self, met: Signature) -> int | None:
        for number, group in enumerate(self.groups):
            if group.constraints is None or group.constraints in met:
                return number
        return None

    def offers(self, met: Signature, speed: float) -> tuple[str, ...]:
        """Return the jobs to offer to a client, best first.

        `met` has the constraints of open requests that the client meets.
        """
        owner = self.region_of(met)
        if owner is None:
            return ()
        group = self.groups[owner]
        skipped = 1 if group.tier is not None and speed not in group.tier else 0
        return tuple(job.job for job in group.jobs[skipped:] if job.constraints in met)


class GroupingPolicy(Protocol):
    """The interface of a policy of role `offline`; an instance holds the options."""

    period: float
    """Seconds from one division to the next."""
    uses_speeds: bool
    """Whether it looks at the speeds of waiting clients."""

    def divide(self, requests: Sequence[Request], census: Census) -> Division:
        """Return the division of the clients between the open requests."""


class FifoGroup:
    """One group of all jobs: clients get the first eligible job in order of registration."""

    period = PERIOD
    uses_speeds = False

    def __init__(self, options: object = None) -> None:
        pass

    def divide(self, requests: Sequence[Request], census: Census) -> Division:
        jobs = tuple(sorted(requests, key=lambda request: (request.registered, request.job)))
        return Division((Group(None, jobs),) if jobs else ())
