"""The policy IRS: reserve clients that few jobs can use for those jobs, unless others gain more.

Source: group allocation in the code of Propius, which is the scheduler of Venn (Liu et al., MLSys
2025). Where that says `region(g) += eligible(g) AND eligible(h)`, a third group may hold part of it
already, and regions would overlap; here a group gets only the part that h holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from testbed.tenancy.attributes import Constraints
from testbed.tenancy.descriptors import IrsOptions, TieredIrsOptions
from testbed.tenancy.grouping import Division, Group, Transfer
from testbed.tenancy.requests import Census, Request
from testbed.tenancy.tiers import tier_for


@dataclass(frozen=True, slots=True)
class _Row:
    """A group with what the allocation compares; counts are of known clients."""

    group: Group
    eligible: int
    held: int
    """Of those in its region before any transfer."""

    @property
    def demand(self) -> int:
        return sum(job.demand for job in self.group.jobs)


def divide(requests: Sequence[Request], census: Census) -> Division:
    """Divide the clients between the requests by IRS.

    Shares are compared as counts of clients multiplied out, so nothing depends on rounding; of
    groups that are equally scarce, the one with the lower constraints counts as the scarcer.
    """
    groups = _groups(requests, census)
    initial = Division(groups)
    held = [0] * len(groups)
    for met, count in census.clients.items():
        owner = initial.region_of(met)
        if owner is not None:
            held[owner] += count
    rows = [
        _Row(group, census.eligible(group.constraints or ()), count)
        for group, count in zip(groups, held, strict=True)
    ]
    return Division(groups, tuple(_transfers(rows)))


def _groups(requests: Sequence[Request], census: Census) -> tuple[Group, ...]:
    """Return the groups, scarcest first, each with its jobs by demand and registration."""
    alike: dict[Constraints, list[Request]] = defaultdict(list)
    for request in requests:
        alike[request.constraints].append(request)
    scarcity = {demanded: census.eligible(demanded) for demanded in alike}
    order = sorted(alike, key=lambda demanded: (scarcity[demanded], demanded))
    return tuple(Group(demanded, tuple(sorted(alike[demanded], key=_turn))) for demanded in order)


def _turn(request: Request) -> tuple[int, float, str]:
    return request.demand, request.registered, request.job


def _transfers(rows: Sequence[_Row]) -> Iterator[Transfer]:
    """Yield what goes from scarcer groups to more common ones, from the most common on."""
    for taker in reversed(range(len(rows))):
        for giver in reversed(range(taker)):
            common, scarce = rows[taker], rows[giver]
            # m / a(g) > |jobs(h)| / a(h), where a(h) = 0 makes the right side infinite
            gained = _until_passed(common, scarce) * scarce.held
            if gained <= len(scarce.group.jobs) * common.held:
                break
            yield Transfer(giver, taker)


def _until_passed(common: _Row, scarce: _Row) -> int:
    """Return how many jobs' queue times pass the total of the scarcer group; else all of them.

    A queue time is a demand over the share of clients that are eligible.
    """
    waited = 0
    for number, job in enumerate(common.group.jobs, start=1):
        waited += job.demand
        if waited * scarce.eligible > scarce.demand * common.eligible:
            return number
    return len(common.group.jobs)


class Irs:
    """The policy IRS: group allocation only."""

    uses_speeds = False

    def __init__(self, options: IrsOptions) -> None:
        self.period = options.period

    def divide(self, requests: Sequence[Request], census: Census) -> Division:
        return divide(requests, census)


class TieredIrs:
    """The policy IRS with tiers: clients of similar speed for the first job of a group."""

    uses_speeds = True

    def __init__(self, options: TieredIrsOptions) -> None:
        self.period = options.period
        self._tiers = options.tiers

    def divide(self, requests: Sequence[Request], census: Census) -> Division:
        division = divide(requests, census)
        speeds: dict[int | None, list[float]] = defaultdict(list)
        for met, waiting in census.waiting.items():
            speeds[division.region_of(met)].extend(waiting)
        groups = tuple(
            replace(group, tier=tier_for(group.jobs[0], speeds[number], self._tiers))
            for number, group in enumerate(division.groups)
        )
        return replace(division, groups=groups)
