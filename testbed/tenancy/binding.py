"""Bind a client to a job: never beyond the demand, never one client twice.

The function reads and writes the records of one job and one client. A store must run it in one
transaction.
"""

from __future__ import annotations

from dataclasses import replace

from testbed.tenancy.attributes import is_eligible
from testbed.tenancy.clients import Client, is_known
from testbed.tenancy.jobs import Job, Phase, prune
from testbed.tenancy.replies import Reply


def accept(
    job: Job | None, client: Client | None, round: int, now: float
) -> tuple[Reply, Job | None, Client | None]:
    """Bind a client that accepted an offer of `round`; return the answer and both records.

    A client takes part in a round once at most. `over-assign` says that the job had all its clients
    already, as other clients accepted since the offer.
    """
    job = None if job is None else prune(job, now)
    if client is None or not is_known(client, now):
        return Reply.UNKNOWN, job, None
    client = replace(client, heard=now)
    if job is None or job.is_over:
        return Reply.NOT_OPEN, job, client
    answer = _answer(job, client, round)
    if answer is not Reply.OK or client.is_bound:  # bound and OK: this acceptance is a repetition
        return answer, job, client
    return Reply.OK, _with(job, client, now), replace(client, job=job.id, round=round)


def _answer(job: Job, client: Client, round: int) -> Reply:
    if client.is_bound:
        return Reply.OK if (client.job, client.round) == (job.id, round) else Reply.BOUND
    if round != job.round:
        return Reply.STALE_ROUND
    if client.id in job.members:
        return Reply.SERVED
    if not is_eligible(client.attributes, job.public):
        return Reply.NOT_ELIGIBLE
    if job.amount >= job.demand:
        return Reply.OVER_ASSIGN
    return Reply.OK if job.phase is Phase.OPEN else Reply.NOT_OPEN


def _with(job: Job, client: Client, now: float) -> Job:
    """Return a job with one client more; with all of them it begins to execute."""
    members = job.members.joined_by(client.id)
    is_full = len(members) == job.demand
    return replace(
        job,
        members=members,
        slowest=min(job.slowest, client.speed),
        phase=Phase.EXECUTING if is_full else Phase.OPEN,
        filled=now if is_full else None,
    )
