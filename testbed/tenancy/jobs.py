"""The life cycle of a job: register, then in each round request clients and execute; finish.

Source: the control plane of Propius, whose job manager does these steps on records in a store.
Every function takes a record and an instant in seconds and returns an answer and the next record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum

from testbed.tenancy.attributes import Attributes, Constraints, is_eligible
from testbed.tenancy.members import Members
from testbed.tenancy.replies import Reply
from testbed.tenancy.requests import LastRound, Request

SILENCE = 1_800.0
"""Seconds without a word after which a job is pruned."""
JOB_LIFE = 7 * 86_400.0
"""Seconds after its last word for which the record of a job is kept."""


class Phase(StrEnum):
    """The phase of a job's life cycle."""

    IDLE = "idle"
    """No round was requested since it registered."""
    OPEN = "open"
    """Clients are being bound to the present round."""
    EXECUTING = "executing"
    """All clients are bound, or the job ended its request."""
    FINISHED = "finished"
    PRUNED = "pruned"


@dataclass(frozen=True, slots=True)
class Job:
    """The record of a job in the control plane."""

    id: str
    public: Constraints
    """What is matched with the attributes that clients tell."""
    private: Constraints
    """What each client compares with attributes that it keeps to itself."""
    rounds: int
    """Rounds that it expects to need; nothing ends it after them."""
    registered: float
    heard: float
    """When it last sent anything."""
    draw: float = 0.0
    phase: Phase = Phase.IDLE
    round: int = 0
    """The present round; before the first request, the rounds that are behind it."""
    demand: int = 0
    members: Members = field(default_factory=Members)
    """The clients that were bound to the present round."""
    round_draw: float = 0.0
    requested: float = 0.0
    filled: float | None = None
    """When the last client of the present round was bound."""
    slowest: float = math.inf
    """Speed of the slowest client of the present round."""
    last: LastRound | None = None

    @property
    def amount(self) -> int:
        """Return how many clients were bound to the present round."""
        return len(self.members)

    @property
    def is_over(self) -> bool:
        """Return whether the job has finished or was pruned."""
        return self.phase in (Phase.FINISHED, Phase.PRUNED)

    def as_request(self) -> Request:
        """Return the job's request for clients, in the form that policies get."""
        return Request(
            self.id,
            self.public,
            self.registered,
            self.demand,
            self.amount,
            self.draw,
            self.round_draw,
            self.last,
        )


@dataclass(frozen=True, slots=True)
class Offer:
    """The description of a job in an offer to a client."""

    job: str
    round: int
    private: Constraints

    def suits(self, private: Attributes) -> bool:
        """Return whether a client's private attributes meet the job's private constraints.

        The client evaluates this by itself: its private attributes are sent nowhere.
        """
        return is_eligible(private, self.private)


def register(
    id: str,
    public: Constraints,
    private: Constraints,
    rounds: int,
    demand: int,
    now: float,
    draw: float = 0.0,
    known: Job | None = None,
    done: int = 0,
) -> tuple[Reply, Job | None]:
    """Register a job that expects `rounds` of `demand` clients each.

    `done` rounds are behind it, where it registers again as its record was lost. Refuse a job
    without rounds or clients, and the name of a job that is active.
    """
    if not id or rounds < 1 or demand < 1 or done < 0:
        return Reply.REFUSED, known
    if known is not None and not known.is_over:
        told = public, private, rounds, done
        same = (known.public, known.private, known.rounds, known.round) == told
        return (Reply.OK if same and known.phase is Phase.IDLE else Reply.REFUSED), known
    return Reply.OK, Job(id, public, private, rounds, now, now, draw, round=done)


def request(job: Job, round: int, demand: int, now: float, draw: float = 0.0) -> tuple[Reply, Job]:
    """Begin the next round with a request for clients; no clients are bound to it yet.

    `round` must be the present one plus one; a repetition changes nothing.
    """
    if job.is_over:
        return Reply.NOT_OPEN, job
    job = replace(job, heard=now)
    if round == job.round and demand == job.demand:
        return Reply.OK, job
    if round != job.round + 1:
        return Reply.STALE_ROUND, job
    if job.phase is Phase.OPEN:
        return Reply.STILL_OPEN, job
    if demand < 1:
        return Reply.REFUSED, job
    return Reply.OK, replace(
        job,
        phase=Phase.OPEN,
        round=round,
        demand=demand,
        members=Members(),
        round_draw=draw,
        requested=now,
        filled=None,
        slowest=math.inf,
        last=_last_round(job, now),
    )


def _last_round(job: Job, now: float) -> LastRound | None:
    """Return how the present round went; the one before where its request was never filled."""
    if job.filled is None:
        return job.last
    return LastRound(job.filled - job.requested, now - job.filled, job.slowest)


def end_request(job: Job, round: int, now: float) -> tuple[Reply, Job]:
    """End the request for clients of the present round; no more are bound to it."""
    if job.is_over:
        return Reply.NOT_OPEN, job
    job = replace(job, heard=now)
    if round != job.round:
        return Reply.STALE_ROUND, job
    if job.phase is not Phase.OPEN:
        return Reply.OK, job
    return Reply.OK, replace(job, phase=Phase.EXECUTING)


def finish(job: Job, now: float) -> tuple[Reply, Job]:
    """End a job; a job that was pruned stays pruned."""
    if job.phase is Phase.PRUNED:
        return Reply.NOT_OPEN, job
    return Reply.OK, replace(job, phase=Phase.FINISHED, heard=now)


def hear(job: Job, now: float) -> tuple[Reply, Job]:
    """Record that a job is alive."""
    return (Reply.NOT_OPEN, job) if job.is_over else (Reply.OK, replace(job, heard=now))


def prune(job: Job, now: float) -> Job:
    """Return the job as of `now`: pruned if it was silent for 1 800 s."""
    silent = not job.is_over and now - job.heard >= SILENCE
    return replace(job, phase=Phase.PRUNED) if silent else job


def is_forgotten(job: Job, now: float) -> bool:
    """Tell whether a job's record may be deleted."""
    return now - job.heard >= JOB_LIFE
