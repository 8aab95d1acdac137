"""The scheduler: computes by a policy what clients are offered, and publishes it in the store."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event, Lock
from typing import Any

from testbed.errors import LabError, UsageError
from testbed.plugins import kind
from testbed.propius.offers import published
from testbed.propius.store import Store
from testbed.tenancy.clients import Client, is_known, is_waiting
from testbed.tenancy.grouping import Division, Group
from testbed.tenancy.jobs import Job, Phase, is_forgotten, prune
from testbed.tenancy.online import ranked
from testbed.tenancy.replies import Reply
from testbed.tenancy.requests import Census, Signature, signature

ONLINE_PERIOD = 0.1
"""Seconds between two looks at the jobs where a policy scores them."""
CLEAN_PERIOD = 10.0
"""Seconds between two prunings of what has been silent."""


class Scheduler:
    """Publishes offers under one policy, from the records in a store."""

    def __init__(self, store: Store, policy: str, clock: Callable[[], float] = time.time) -> None:
        found = kind("scheduling_policies", policy)
        self._store = store
        self._policy: Any = found.load()(found.options())
        if found.role == "baseline" and self._policy.for_good:
            raise UsageError(
                f"by {policy} a client belongs to one of all jobs for good, without a scheduler, "
                "and which jobs there will be is not known here",
                hint="name another policy, or compare it by simulation (clients-model)",
            )
        self._selection = policy if found.role == "baseline" else ""
        self._is_online = found.role == "online"
        self._clock = clock
        self._lock = Lock()
        self._scores: dict[tuple[str, float, int], float] = {}
        self._cleaned = -CLEAN_PERIOD
        self.period: float = self._policy.period if found.role == "offline" else ONLINE_PERIOD

    def schedule(self) -> Reply:
        """Publish the offers as they are now."""
        with self._lock:
            known = self._store.jobs()
            asking = {job.id: job for job in known if job.phase is Phase.OPEN}
            if self._selection:  # clients choose among all, also among those that do not ask
                asking = {job.id: job for job in known if job.round and not job.is_over}
                division = Division((Group(None, tuple(map(Job.as_request, asking.values()))),))
            else:
                division = self._ranking(asking) if self._is_online else self._division(asking)
            self._store.publish(published(division, asking, self._selection))
            if self._clock() - self._cleaned >= CLEAN_PERIOD:
                self._cleaned = self._clock()
                self._clean(known)
        return Reply.OK

    def run(self, stop: Event) -> None:
        """Publish offers every period until `stop` is set; a store that is gone is tried again."""
        while not stop.wait(self.period):
            with suppress(LabError):
                self.schedule()

    def _ranking(self, asking: Mapping[str, Job]) -> Division:
        """Return the open jobs by score, as one group."""
        scores, scored = {}, []
        for job in asking.values():
            request = job.as_request()
            key = job.id, job.registered, job.round if self._policy.each_round else 0
            score = self._scores[key] if key in self._scores else self._policy.score(request)
            scores[key] = score
            scored.append((score, request))
        self._scores = scores
        ordered = tuple(ranked(scored))
        return Division((Group(None, ordered),) if ordered else ())

    def _division(self, asking: Mapping[str, Job]) -> Division:
        """Return the division of the known clients between the open jobs."""
        groups = {job.public for job in asking.values()}
        now, counts = self._clock(), Counter[Signature]()
        waiting: dict[Signature, list[float]] = defaultdict(list)
        for client in self._store.clients() if asking else ():
            if is_known(client, now):
                met = signature(client.attributes, groups)
                counts[met] += 1
                if is_waiting(client, now):
                    waiting[met].append(client.speed)
        requests = [job.as_request() for job in asking.values()]
        division: Division = self._policy.divide(requests, Census(counts, waiting))
        return division

    def _clean(self, known: list[Job]) -> None:
        """Prune jobs that are silent, and delete what nobody asks for any more."""
        now = self._clock()
        for job in known:
            if is_forgotten(job, now) or prune(job, now) != job:
                self._store.change_job(job.id, lambda found: _aged(found, now))
        for client in self._store.clients():
            if not is_known(client, now):
                self._store.change_client(client.id, lambda found: _kept(found, now))


def _aged(job: Job | None, now: float) -> tuple[Reply, Job | None]:
    if job is None or is_forgotten(job, now):
        return Reply.UNKNOWN, None
    return Reply.OK, prune(job, now)


def _kept(client: Client | None, now: float) -> tuple[Reply, Client | None]:
    return (Reply.OK, client) if is_known(client, now) else (Reply.UNKNOWN, None)
