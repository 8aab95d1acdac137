"""The policies of a lab's queue: `makespan`, and those of jobs that share clients.

A scheduling policy sees each experiment as a job that demands as many clients as it needs parts,
and each part as a client that serves the experiments that need it. An experiment cannot do with a
share of its parts, so a policy gives an order here, and no client is bound by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from testbed.errors import UsageError
from testbed.plugins import kind, kinds, nearest
from testbed.tenancy.attributes import Constraints
from testbed.tenancy.grouping import GroupingPolicy
from testbed.tenancy.lab_queue import Busy, LabPolicy, Waiting, planned_end
from testbed.tenancy.online import ScoringPolicy, ranked
from testbed.tenancy.requests import Request, census, signature

MAKESPAN = "makespan"
"""The queue's own policy, and the one of a lab that names none."""
_BY_ARRIVAL = ("fifo", "fifo-offline")
"""Policies whose first experiment is the oldest: it has its reservation from the beginning."""


def policy_names() -> list[str]:
    """Return the names of the policies that a queue can have."""
    known = kinds("scheduling_policies")
    return [MAKESPAN, *(name for name in known if known[name].role in ("online", "offline"))]


def lab_policy(name: str) -> LabPolicy:
    """Return a policy by its name; raise UsageError for one that no queue can have."""
    if name == MAKESPAN:
        return LabPolicy(shortest)
    if name not in policy_names():
        raise UsageError(f"unknown policy of a queue {name!r}", hint=nearest(name, policy_names()))
    found = kind("scheduling_policies", name)
    made: Any = found.load()(found.options())
    patience = {"patience": 0.0} if name in _BY_ARRIVAL else {}
    if found.role == "online":
        return LabPolicy(lambda waiting, _busy, _now: by_score(waiting, made), **patience)
    return LabPolicy(lambda waiting, _busy, _now: by_region(waiting, made), **patience)


def shortest(waiting: Sequence[Waiting], busy: Sequence[Busy], now: float) -> list[Waiting]:
    """Return the one of five orders after which all would have ended soonest.

    By arrival; most parts first; longest first; most wanted parts first, by the part that is wanted
    for longest and by all of them. Of equal ones the earlier in this list.
    """
    return min(_orders(waiting), key=lambda order: planned_end(order, busy, now))


def _orders(waiting: Sequence[Waiting]) -> list[list[Waiting]]:
    """Return the orders that `shortest` compares."""
    wanted: dict[int, float] = {}
    for one in waiting:
        for part in _bits(one.needs):
            wanted[part] = wanted.get(part, 0.0) + one.expected
    times = {one.name: [wanted[part] for part in _bits(one.needs)] for one in waiting}
    first = sorted(waiting, key=lambda one: (one.arrived, one.name))
    return [
        first,
        sorted(first, key=lambda one: (-one.needs.bit_count(), -one.expected)),
        sorted(first, key=lambda one: -one.expected),
        sorted(first, key=lambda one: (-max(times[one.name], default=0.0), -one.expected)),
        sorted(first, key=lambda one: (-sum(times[one.name]), -one.expected)),
    ]


def by_score(waiting: Sequence[Waiting], policy: ScoringPolicy) -> list[Waiting]:
    """Return experiments by the score of a policy of role `online`, highest first."""
    requests = {one.name: _request(one) for one in waiting}
    order = ranked((policy.score(request), request) for request in requests.values())
    named = {one.name: one for one in waiting}
    return [named[request.job] for request in order]


def by_region(waiting: Sequence[Waiting], policy: GroupingPolicy) -> list[Waiting]:
    """Return experiments by a policy of role `offline`, which divides the parts between groups.

    First those with the greatest share of their parts in the region of their group; then in the
    order of the groups and of the experiments in each.
    """
    groups = {_constraints(one.needs): one.needs for one in waiting}
    parts = {part for needs in groups.values() for part in _bits(needs)}
    attributes = {
        part: {name: 1.0 for ((name, _),), needs in groups.items() if needs & part}
        for part in parts
    }
    division = policy.divide(
        [_request(one) for one in waiting], census(attributes.values(), groups)
    )
    region = {
        part: division.region_of(signature(held, groups)) for part, held in attributes.items()
    }
    place = {
        job.job: (number, position)
        for number, group in enumerate(division.groups)
        for position, job in enumerate(group.jobs)
    }

    def turn(one: Waiting) -> tuple[float, int, int]:
        number, position = place[one.name]
        held = [region[part] == number for part in _bits(one.needs)]
        return -sum(held) / max(1, len(held)), number, position

    return sorted(waiting, key=turn)


def _request(one: Waiting) -> Request:
    demand = one.needs.bit_count()
    return Request(one.name, _constraints(one.needs), one.arrived, demand, draw=one.draw)


def _constraints(needs: int) -> Constraints:
    return ((f"{needs:x}", 1.0),)


def _bits(needs: int) -> list[int]:
    """Return the parts of a set, each as a set of its own."""
    found = []
    while needs:
        found.append(needs & -needs)
        needs &= needs - 1
    return found
