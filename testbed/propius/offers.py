"""The offers that the scheduler publishes, as text: groups of jobs, and who is in whose region.

Managers read them and need no other record to answer a client. Of a baseline, by which clients
choose a job themselves, all jobs are published, and a manager has each client choose.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.plugins import kind
from testbed.tenancy.attributes import Attributes, Constraints
from testbed.tenancy.baselines import SelectionPolicy
from testbed.tenancy.grouping import Division, Group, Tier, Transfer
from testbed.tenancy.jobs import Job, Offer
from testbed.tenancy.online import MAX_OFFERS
from testbed.tenancy.requests import Request, signature


@dataclass(frozen=True, slots=True)
class Published:
    """A division of the clients, and the offer of each of its jobs."""

    division: Division
    offers: Mapping[str, Offer]
    selection: SelectionPolicy | None = None
    """How a client chooses among all jobs; None: it is offered what it can serve."""

    def to(self, attributes: Attributes, speed: float, draw: float = 0.0) -> list[Offer]:
        """Return the offers to a client, best first, 20 at most; `draw` is uniform in [0, 1)."""
        if self.selection is not None:
            return self._chosen(attributes, draw)
        asked = {job.constraints for group in self.division.groups for job in group.jobs}
        names = self.division.offers(signature(attributes, asked), speed)
        return [self.offers[name] for name in names[:MAX_OFFERS]]

    def _chosen(self, attributes: Attributes, draw: float) -> list[Offer]:
        """Return the job that a client chooses, whether or not it can serve it and that asks."""
        assert self.selection is not None
        jobs = {
            job.job: (job.constraints, job.demand)
            for group in self.division.groups
            for job in group.jobs
        }
        name = self.selection.select(jobs, attributes, draw)
        return [] if name is None else [self.offers[name]]


NOTHING = Published(Division(()), {})


def published(division: Division, jobs: Mapping[str, Job], selection: str = "") -> str:
    """Return a division and the offers of its jobs as text, with the policy by which to choose."""
    return json.dumps(
        {
            "selection": selection,
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
    return Published(Division(groups, transfers), offers, selection_policy(data["selection"]))


def selection_policy(name: str) -> SelectionPolicy | None:
    """Return the policy of a name by which a client chooses; None for an empty name."""
    if not name:
        return None
    found = kind("scheduling_policies", name)
    policy: SelectionPolicy = found.load()(found.options())
    return policy


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
