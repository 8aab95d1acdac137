"""One interface for policies of every role, which decides the jobs that clients are offered.

Clients of one kind are offered the same, but for their speed and for chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Protocol

from testbed.tenancy.attributes import Constraints
from testbed.tenancy.baselines import SelectionPolicy
from testbed.tenancy.grouping import Division, GroupingPolicy
from testbed.tenancy.jobs import Job, Phase
from testbed.tenancy.online import MAX_OFFERS, ScoringPolicy, ranked
from testbed.tenancy.requests import Census, Signature
from testbed.tenancy.traces import ClientTrace
from testbed.tenancy.workload import JobSpec

Jobs = Mapping[str, Job]
"""The records of all registered jobs, as they are now."""


class Decider(Protocol):
    """The interface that decides which open jobs a client is offered."""

    period: float
    """Seconds between divisions of the clients; 0: it decides at each request."""
    uses_speeds: bool
    """Whether it looks at the speeds of waiting clients."""
    draws_each_time: bool
    """Whether a client that was offered nothing may be offered something a moment later."""

    def kind(self, client: ClientTrace, met: Signature) -> Any:
        """Return the kind of a client: clients of one kind meet equal constraints."""

    def changed(self, job: Job) -> bool:
        """Note that a job registered, opened or closed; return whether there are more offers."""

    def divide(self, census: Callable[[], Census]) -> bool:
        """Divide the clients again; return whether the division has changed."""

    def offers(self, kind: Any, speed: float) -> Sequence[str]:
        """Return the open jobs to offer to a client now, best first."""

    def may_offer(self, kind: Any) -> bool:
        """Return whether clients of a kind could be offered any job."""


class Online:
    """A policy that ranks jobs by a score."""

    period = 0.0
    uses_speeds = draws_each_time = False

    def __init__(self, policy: ScoringPolicy, jobs: Jobs) -> None:
        self._policy = policy
        self._jobs = jobs
        self._scores: dict[str, float] = {}
        self._offers: dict[Signature, tuple[str, ...]] = {}

    def kind(self, client: ClientTrace, met: Signature) -> Signature:
        return met

    def changed(self, job: Job) -> bool:
        if job.id not in self._scores or (self._policy.each_round and job.phase is Phase.OPEN):
            self._scores[job.id] = self._policy.score(job.as_request())
        self._offers.clear()
        return job.phase is Phase.OPEN

    def divide(self, census: Callable[[], Census]) -> bool:
        return False

    def offers(self, kind: Signature, speed: float) -> Sequence[str]:
        found = self._offers.get(kind)
        if found is None:
            scored = ((self._scores[job.id], job.as_request()) for job in _open(self._jobs))
            fit = (one.job for one in ranked(scored) if one.constraints in kind)
            found = self._offers[kind] = tuple(fit)[:MAX_OFFERS]
        return found

    def may_offer(self, kind: Signature) -> bool:
        return bool(self.offers(kind, 0.0))


class Offline:
    """A policy that divides the clients between groups of jobs."""

    draws_each_time = False

    def __init__(self, policy: GroupingPolicy, jobs: Jobs) -> None:
        self._policy = policy
        self._jobs = jobs
        self._division = Division(())
        self._groups: frozenset[Constraints] = frozenset()
        self.period = policy.period
        self.uses_speeds = policy.uses_speeds

    def kind(self, client: ClientTrace, met: Signature) -> Signature:
        return met

    def changed(self, job: Job) -> bool:
        groups = self._division.groups
        is_known = any(job.id == request.job for group in groups for request in group.jobs)
        return is_known and job.phase is Phase.OPEN

    def divide(self, census: Callable[[], Census]) -> bool:
        requests = [job.as_request() for job in _open(self._jobs)]
        before = _shown(self._division)
        self._groups = frozenset(request.constraints for request in requests)
        self._division = self._policy.divide(requests, narrowed(census(), self._groups))
        return bool(_shown(self._division) != before)

    def offers(self, kind: Signature, speed: float) -> Sequence[str]:
        return [
            job
            for job in self._division.offers(kind & self._groups, speed)
            if self._jobs[job].phase is Phase.OPEN
        ][:MAX_OFFERS]

    def may_offer(self, kind: Signature) -> bool:
        owner = self._division.region_of(kind & self._groups)
        if owner is None:
            return False
        jobs = self._division.groups[owner].jobs
        return any(self._jobs[job.job].phase is Phase.OPEN for job in jobs)


def _shown(division: Division) -> Any:
    """Return what of a division clients can see."""
    groups = [(g.constraints, [job.job for job in g.jobs], g.tier) for g in division.groups]
    return groups, division.transfers


def narrowed(census: Census, groups: frozenset[Constraints]) -> Census:
    """Return a census reduced to the given constraints."""
    clients: dict[Signature, int] = {}
    waiting: dict[Signature, list[float]] = {}
    for met, count in census.clients.items():
        clients[met & groups] = clients.get(met & groups, 0) + count
    for met, speeds in census.waiting.items():
        waiting.setdefault(met & groups, []).extend(speeds)
    return Census(clients, waiting)


class Baseline:
    """Clients that choose a job by themselves."""

    period = 0.0
    uses_speeds = False

    def __init__(
        self, policy: SelectionPolicy, jobs: Jobs, specs: Sequence[JobSpec], chance: Random
    ) -> None:
        self._policy = policy
        self._jobs = jobs
        self._all = {spec.id: (spec.public, spec.demand) for spec in specs}
        self._chance = chance
        self.wasted = 0
        """Attempts of clients that picked a job that they cannot serve, or that was not open."""
        self.draws_each_time = not policy.for_good

    def kind(self, client: ClientTrace, met: Signature) -> Any:
        if not self._policy.for_good:
            return met
        return self._policy.select(self._all, client.attributes, self._chance.random())

    def changed(self, job: Job) -> bool:
        return job.phase is Phase.OPEN

    def divide(self, census: Callable[[], Census]) -> bool:
        return False

    def offers(self, kind: Any, speed: float) -> Sequence[str]:
        if self._policy.for_good:
            return [kind] if self.may_offer(kind) else []
        running = {job.id: self._all[job.id] for job in self._jobs.values() if not job.is_over}
        picked = self._policy.select(running, {}, self._chance.random())
        if picked is None:
            return []
        job = self._jobs[picked]
        fits = job.phase is Phase.OPEN and job.public in kind
        self.wasted += not fits
        return [picked] if fits else []

    def may_offer(self, kind: Any) -> bool:
        if self._policy.for_good:
            return kind in self._jobs and self._jobs[kind].phase is Phase.OPEN
        return any(job.phase is Phase.OPEN for job in self._jobs.values())


def _open(jobs: Jobs) -> list[Job]:
    return [job for job in jobs.values() if job.phase is Phase.OPEN]


def decider(
    role: str, policy: Any, jobs: Jobs, specs: Sequence[JobSpec], chance: Random
) -> Online | Offline | Baseline:
    """Return the object that decides offers under a policy of the given role."""
    if role == "online":
        return Online(policy, jobs)
    return Offline(policy, jobs) if role == "offline" else Baseline(policy, jobs, specs, chance)
