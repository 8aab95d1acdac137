"""The store of a control plane: records of jobs and clients, and the one act that binds.

Several managers, in processes of their own, share a store; each call is one transaction in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from testbed.tenancy.clients import Client
from testbed.tenancy.jobs import Job
from testbed.tenancy.replies import Reply

JobAct = Callable[[Job | None], tuple[Reply, Job | None]]
"""From the record of a job to an answer and its next record; None is no record."""
ClientAct = Callable[[Client | None], tuple[Reply, Client | None]]


class Store(Protocol):
    """The interface of a store; all methods may be called from any thread.

    They raise LabError if the store cannot be reached or does not get a turn.
    """

    def jobs(self) -> list[Job]:
        """Return the records of all jobs."""

    def clients(self) -> list[Client]:
        """Return the records of all clients, one after the other and not at one instant."""

    def change_job(self, job: str, act: JobAct) -> tuple[Reply, Job | None]:
        """Replace the record of a job by what an act makes of it; the act may be called again."""

    def change_client(self, client: str, act: ClientAct) -> tuple[Reply, Client | None]:
        """Replace the record of a client by what an act makes of it."""

    def bind(self, job: str, client: str, round: int, now: float) -> Reply:
        """Bind a client to a round of a job, as `testbed.tenancy.binding.accept` does."""

    def publish(self, offers: str) -> None:
        """Replace the offers of the scheduler."""

    def published(self) -> str:
        """Return the offers of the scheduler; empty before the first."""

    def close(self) -> None:
        """Give up connections and files."""
