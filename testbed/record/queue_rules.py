"""Which entries of a lab's queue may start: leases and entries in, a decision out; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from testbed.errors import UsageError
from testbed.record.claim_registry import ClaimStatus
from testbed.record.lease_rules import LEASE_TTL, Resource, ResourceIndex
from testbed.record.queue_entry import QueueEntry
from testbed.tenancy.lab_orders import MAKESPAN, lab_policy
from testbed.tenancy.lab_queue import (
    Busy,
    LabPolicy,
    Line,
    Waiting,
    line_up,
    planned_starts,
    starting,
)
from testbed.tenancy.lab_replay import Experiment


class Parts:
    """Numbers the parts of devices, so that sets of them are whole numbers with a bit for each.

    A whole device is all its parts that occur, and one more.
    """

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._boxes: dict[str, int] = {}
        self._bits: dict[Resource, int] = {}
        seen = {Resource(r.box, part) for r in resources for part in ("", r.part)}
        for number, resource in enumerate(sorted(seen)):
            self._bits[resource] = 1 << number
            self._boxes[resource.box] = self._boxes.get(resource.box, 0) | 1 << number

    def of(self, resources: Iterable[Resource]) -> int:
        """Return the set of parts that resources are."""
        found = 0
        for one in resources:
            found |= self._bits[Resource(one.box, one.part)] if one.part else self._boxes[one.box]
        return found


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The queue and the leases at one instant."""

    now: float
    entries: Sequence[QueueEntry]
    """Those that wait or run."""
    claims: Sequence[ClaimStatus]

    def waiting(self) -> list[QueueEntry]:
        """Return the entries that wait, by arrival."""
        return [one for one in self.entries if one.state == "waiting"]

    def in_the_way(self, entry: QueueEntry) -> list[ClaimStatus]:
        """Return the claims of others that have what an entry needs."""
        wanted = ResourceIndex(entry.resources)
        others = (one for one in self._held() if one.claim.token != entry.token)
        return [one for one in others if wanted.overlaps(one.claim)]

    def passed_over(self, entry: QueueEntry) -> str:
        """Return why an entry cannot have its turn, whatever its place; empty if it can."""
        for one in self.in_the_way(entry):
            if one.standing == "unrecovered":
                return "what it needs must be recovered first"
        return "its process has not asked for a minute" if self._is_silent(entry) else ""

    def line(self) -> list[QueueEntry]:
        """Return the entries that wait, in the order of their turns; at last those without one."""
        by_token = {one.token: one for one in self.waiting()}
        first = [by_token[one.name] for one in self._line()[0].entries]
        return [*first, *(one for one in by_token.values() if one not in first)]

    def may_start(self, token: str) -> bool:
        """Return whether it is an entry's turn and all that it needs is free."""
        line, busy = self._line()
        return token in {one.name for one in starting(line, busy, self.now)}

    def expected_start(self, token: str) -> float | None:
        """Return when an entry would start if all took as long as expected; None without a turn."""
        line, busy = self._line()
        return planned_starts(line, busy, self.now).get(token)

    def taken_until(self, groups: Mapping[str, Iterable[Resource]]) -> dict[str, float]:
        """Return the groups of which somebody has or waits for a part, and until about when.

        An instant that has passed means at any moment; infinity, that it is not known: a run
        outside the queue has it, or one that must be recovered first. Entries that are passed over
        do not count.
        """
        line, busy = self._line()
        starts, ends = planned_starts(line, busy, self.now), _expected_ends(self.entries)
        taken = [(one.claim.resources, _known_end(one, ends)) for one in self._held()]
        waiting = (one for one in self.waiting() if one.token in starts)
        taken += [(one.resources, starts[one.token] + one.expected) for one in waiting]
        found: dict[str, float] = {}
        for name, resources in groups.items():
            index = ResourceIndex(resources)
            until = [end for parts, end in taken if index.overlapping(parts)]
            if until:
                found[name] = max(until)
        return found

    def _held(self) -> list[ClaimStatus]:
        return [one for one in self.claims if one.standing != "ended"]

    def _line(self) -> tuple[Line, list[Busy]]:
        held = self._held()
        waiting = [one for one in self.waiting() if not self.passed_over(one)]
        groups = [*(one.claim.resources for one in held), *(one.resources for one in waiting)]
        parts = Parts(resource for group in groups for resource in group)
        ends = _expected_ends(self.entries)
        busy = [Busy(parts.of(one.claim.resources), _end(one, ends, self.now)) for one in held]
        candidates = [_candidate(one, parts) for one in waiting]
        return line_up(candidates, busy, self.now, policy_in_force(self.waiting())), busy

    def _is_silent(self, entry: QueueEntry) -> bool:
        return self.now - entry.seen > LEASE_TTL


def policy_in_force(waiting: Sequence[QueueEntry]) -> LabPolicy:
    """Return the policy of the lab file that the newest entry was started with."""
    newest = max(waiting, key=lambda one: one.holder.since, default=None)
    try:
        return lab_policy(newest.policy if newest else MAKESPAN)
    except UsageError:  # of another controller, where a package is installed that is not here
        return lab_policy(MAKESPAN)


def experiments(history: Iterable[QueueEntry]) -> list[Experiment]:
    """Return what a history says of experiments that ran to their end; moves are left out.

    One that was interrupted and came again has arrived when it came again.
    """
    ran = [one for one in history if one.started is not None and one.ended is not None]
    parts = Parts(resource for one in ran for resource in one.resources)
    return [
        Experiment(
            Waiting(one.token, parts.of(one.resources), one.entered, one.expected, one.draw),
            (one.ended or 0.0) - (one.started or 0.0),
        )
        for one in ran
    ]


def _expected_ends(entries: Iterable[QueueEntry]) -> dict[str, float]:
    return {one.token: (one.started or 0.0) + one.expected for one in entries}


def _end(status: ClaimStatus, ends: dict[str, float], unknown: float) -> float:
    """Return when a claim will probably end; `unknown`, where nothing is known of it."""
    if status.claim.holder.pid == 0:
        return status.claim.expires
    return ends.get(status.claim.token, unknown)


def _known_end(status: ClaimStatus, ends: dict[str, float]) -> float:
    """Return when a claim will probably end, infinity where nothing is known of it."""
    return math.inf if status.standing == "unrecovered" else _end(status, ends, math.inf)


def _candidate(entry: QueueEntry, parts: Parts) -> Waiting:
    needs = parts.of(entry.resources)
    return Waiting(entry.token, needs, entry.arrived, entry.expected, entry.draw, entry.move)
