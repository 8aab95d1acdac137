"""A job in the simulation: its record in the control plane, and its results of the round."""

from __future__ import annotations

from collections.abc import MutableMapping

from testbed.tenancy import jobs
from testbed.tenancy.attributes import Attributes
from testbed.tenancy.jobs import Job, Offer, Phase
from testbed.tenancy.outcome import JobOutcome
from testbed.tenancy.replies import Reply
from testbed.tenancy.workload import JobSpec


class RunningJob:
    """A job that requests clients round after round until all rounds are done."""

    def __init__(
        self, spec: JobSpec, records: MutableMapping[str, Job], now: float, draw: float
    ) -> None:
        self.spec = spec
        self._records = records
        reply, record = jobs.register(
            spec.id, spec.public, spec.private, spec.rounds, spec.asked, now, draw
        )
        assert reply is Reply.OK
        assert record is not None
        self.record = record
        self.results = 0
        """Results of the present round that arrived in time."""
        self.is_waiting = False
        """Whether the present round still waits for results."""
        self._offer = Offer(spec.id, 0, spec.private)
        self._done = self._short = 0
        self._finished: float | None = None
        self._scheduling: list[float] = []
        self._response: list[float] = []

    @property
    def record(self) -> Job:
        """Return the job's record in the control plane."""
        return self._records[self.spec.id]

    @record.setter
    def record(self, record: Job) -> None:
        self._records[self.spec.id] = record

    def stay_known(self, now: float) -> None:
        """Report to the control plane that the job is alive."""
        _, self.record = jobs.hear(self.record, now)

    def end_request(self, now: float) -> None:
        """End the request for clients of this round."""
        _, self.record = jobs.end_request(self.record, self.record.round, now)

    def request(self, now: float, draw: float) -> None:
        """Begin the next round."""
        reply, self.record = jobs.request(
            self.record, self.record.round + 1, self.spec.asked, now, draw
        )
        assert reply is Reply.OK
        self._offer = Offer(self.spec.id, self.record.round, self.spec.private)
        self.results = 0
        self.is_waiting = True

    def take_result(self, round: int) -> bool:
        """Count a client's result; return whether it came in time."""
        if round != self.record.round or not self.is_waiting:
            return False
        self.results += 1
        return True

    @property
    def has_enough(self) -> bool:
        """Return whether the round has all results that it needs."""
        return self.results >= self.spec.demand

    def end_round(self, now: float) -> bool:
        """End the round with the results received so far; return whether the job has finished.

        A round without any result is repeated.
        """
        self.end_request(now)
        self.is_waiting = False
        filled = now if self.record.filled is None else self.record.filled
        self._scheduling.append(filled - self.record.requested)
        self._response.append(now - filled)
        self._done += self.results > 0
        self._short += 0 < self.results < self.spec.demand
        if self._done < self.spec.rounds:
            return False
        _, self.record = jobs.finish(self.record, now)
        self._finished = now
        return True

    @property
    def is_open(self) -> bool:
        """Return whether the job is requesting clients."""
        return self.record.phase is Phase.OPEN

    def suits(self, client: str, private: Attributes) -> bool:
        """Return whether a client can accept an offer of this job.

        It may take part in a round only once, and must meet the private constraints.
        """
        return client not in self.record.members and self._offer.suits(private)

    def outcome(self) -> JobOutcome:
        """Return the results of the job."""
        return JobOutcome(
            self.spec.id,
            self.spec.arrival,
            self._finished,
            self._done,
            self._short,
            _mean(self._scheduling),
            _mean(self._response),
        )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
