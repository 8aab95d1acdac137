"""The offers that the scheduler publishes, as text: groups of jobs, and who is in whose region.

Managers read them and need no other record to answer a client.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.tenancy.attributes import Attributes, Constraints
from testbed.tenancy.grouping import Division, Group, Tier, Transfer
from testbed.tenancy.jobs import Job, Offer
from testbed.tenancy.online import MAX_OFFERS
from testbed.tenancy.requests import Request, signature


@dataclass(frozen=True, slots=True)
class Published:
    """A division of the clients, and the offer of each of its jobs."""

    division: Division
    offers: Mapping[str, Offer]

    def to(self, attributes: Attributes, speed: float) -> list[Offer]:
        """Return the offers to a client, best first, 20 at most."""
        asked = {job.constraints for group in self.division.groups for job in group.jobs}
        names = self.division.offers(signature(attributes, asked), speed)
        return [self.offers[name] for name in names[:MAX_OFFERS]]


NOTHING = Published(Division(()), {})


def published(division: Division, jobs: Mapping[str, Job]) -> str:
    """Return a division and the offers of its jobs as text."""
    return json.dumps(
        {
            "groups": [
                {
                    "constraints": group.constraints,
                    "jobs": [_row(jobs[request.job]) for request in group.jobs],
                    "tier": group.tier and [group.tier.slowest, group.tier.fastest],
                }
                for group in division.groups
            ],
            "transfers": [[each.giver, each.taker] for each in division.transfers],
        }
    )


def read(text: str) -> Published:
    """Return what was published."""
    if not text:
        return NOTHING
    data = json.loads(text)
    rows = [row for group in data["groups"] for row in group["jobs"]]
    groups = tuple(
        Group(
            _constraints(group["constraints"]),
            tuple(_request(row) for row in group["jobs"]),
            Tier(*group["tier"]) if group["tier"] else None,
        )
        for group in data["groups"]
    )
    transfers = tuple(Transfer(giver, taker) for giver, taker in data["transfers"])
    offers = {row[0]: Offer(row[0], row[1], _constraints(row[3]) or ()) for row in rows}
    return Published(Division(groups, transfers), offers)


def _row(job: Job) -> list[object]:
    return [job.id, job.round, job.public, job.private, job.registered, job.demand]


def _request(row: Sequence[object]) -> Request:
    name, _, public, _, registered, demand = row
    return Request(str(name), _constraints(public) or (), float(str(registered)), int(str(demand)))


def _constraints(rows: object) -> Constraints | None:
    if rows is None:
        return None
    assert isinstance(rows, list)
    return tuple((str(name), float(least)) for name, least in rows)
