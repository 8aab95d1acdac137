"""The job manager: the messages of jobs, carried to the store."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping

from testbed.propius import control_pb2 as messages
from testbed.propius.store import Store
from testbed.tenancy import jobs as rules
from testbed.tenancy.attributes import constraints
from testbed.tenancy.jobs import Job
from testbed.tenancy.replies import Reply

Act = Callable[[Job], tuple[Reply, Job]]


class JobManager:
    """Answers jobs; all that it knows is in the store, so any number of it may run."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.time,
        chance: random.Random | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance or random.Random()

    def register(self, asked: messages.Registration) -> messages.JobState:
        """Register a job."""
        if not (_finite(asked.public_constraints) and _finite(asked.private_constraints)):
            return messages.JobState(reply=Reply.REFUSED)
        public = constraints(dict(asked.public_constraints))
        private = constraints(dict(asked.private_constraints))
        now, draw = self._clock(), self._chance.random()

        def act(known: Job | None) -> tuple[Reply, Job | None]:
            if known is not None:
                known = rules.prune(known, now)
            told = asked.job, public, private, asked.rounds, asked.demand
            return rules.register(*told, now, draw, known, asked.done)

        return _state(*self._store.change_job(asked.job, act))

    def request(self, asked: messages.RoundRequest) -> messages.JobState:
        """Begin a round of a job."""
        draw, now = self._chance.random(), self._clock()
        return self._change(
            asked.job, lambda job: rules.request(job, asked.round, asked.demand, now, draw)
        )

    def end_request(self, asked: messages.JobRound) -> messages.JobState:
        """End a job's request for clients."""
        now = self._clock()
        return self._change(asked.job, lambda job: rules.end_request(job, asked.round, now))

    def finish(self, asked: messages.JobName) -> messages.JobState:
        """End a job."""
        now = self._clock()
        return self._change(asked.job, lambda job: rules.finish(job, now))

    def hear(self, asked: messages.JobName) -> messages.JobState:
        """Note that a job is alive, and tell it whose updates to expect."""
        now = self._clock()
        return self._change(asked.job, lambda job: rules.hear(job, now))

    def _change(self, name: str, act: Act) -> messages.JobState:
        now = self._clock()

        def of_known(job: Job | None) -> tuple[Reply, Job | None]:
            return (Reply.UNKNOWN, None) if job is None else act(rules.prune(job, now))

        return _state(*self._store.change_job(name, of_known))


def _finite(values: Mapping[str, float]) -> bool:
    return all(map(math.isfinite, values.values()))


def _state(reply: Reply, job: Job | None) -> messages.JobState:
    if job is None:
        return messages.JobState(reply=reply)
    return messages.JobState(
        reply=reply,
        phase=job.phase,
        round=job.round,
        demand=job.demand,
        members=sorted(job.members),
    )
