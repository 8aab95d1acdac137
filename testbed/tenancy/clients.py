"""The life cycle of a client: check in, accept an offer, execute, be released, expire.

Source: the client managers of Propius. A client tells its public attributes only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from testbed.tenancy.attributes import Attributes
from testbed.tenancy.replies import Reply

CLIENT_LIFE = 1_000.0
"""Seconds after its last word for which the record of a client is kept."""
WAITING_LIFE = 25.0
"""Seconds after its last word for which a client without a job counts as waiting (offline)."""


@dataclass(frozen=True, slots=True)
class Client:
    """The record of a client in the control plane."""

    id: str
    attributes: Attributes
    speed: float
    heard: float
    job: str = ""
    """The job that it is bound to; empty: none."""
    round: int = 0

    @property
    def is_bound(self) -> bool:
        """Return whether the client is bound to a job now."""
        return bool(self.job)


def is_known(client: Client | None, now: float) -> bool:
    """Return whether a client has a record that has not expired."""
    return client is not None and now - client.heard < CLIENT_LIFE


def is_waiting(client: Client, now: float) -> bool:
    """Return whether a client is available for an offer now."""
    return not client.is_bound and now - client.heard < WAITING_LIFE


def check_in(
    known: Client | None, id: str, attributes: Attributes, speed: float, now: float
) -> tuple[Reply, Client]:
    """Register a client; if it is bound, the reply says so and the record names the job."""
    if known is not None and known.is_bound and is_known(known, now):
        return Reply.BOUND, replace(known, heard=now)
    return Reply.OK, Client(id, attributes, speed, now)


def ping(client: Client | None, now: float) -> tuple[Reply, Client | None]:
    """Record that a client is alive."""
    if client is None or not is_known(client, now):
        return Reply.UNKNOWN, None
    return Reply.OK, replace(client, heard=now)


def release(client: Client | None, job: str, round: int, now: float) -> tuple[Reply, Client | None]:
    """Release a client from a round that it has executed or given up."""
    if client is None or not is_known(client, now):
        return Reply.UNKNOWN, None
    client = replace(client, heard=now)
    if not client.is_bound:
        return Reply.OK, client
    if (client.job, client.round) != (job, round):
        return Reply.STALE_ROUND, client
    return Reply.OK, replace(client, job="", round=0)
