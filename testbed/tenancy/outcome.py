"""The measured results of a simulation."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The results of one job; times in seconds."""

    id: str
    arrival: float
    finished: float | None
    """None: not before the horizon."""
    rounds: int
    short_rounds: int
    """Rounds that ended with fewer results than were needed."""
    scheduling: float
    """Mean time from a request to its last client."""
    response: float
    """Mean time from the last client to the end of a round."""

    @property
    def completion_time(self) -> float | None:
        """Return the time from a job's arrival to its end; None if it did not finish."""
        return None if self.finished is None else self.finished - self.arrival


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a whole simulation."""

    jobs: tuple[JobOutcome, ...]
    ended: float
    """When the last job finished, or the horizon."""
    available: float
    """Client-seconds of availability from the first job's arrival until then."""
    working: float
    """Client-seconds of being bound: computing, transferring."""
    useful: float
    """Client-seconds of work whose result counted in its round."""
    bound: int
    over_assigned: int
    """Acceptances that came when the job had all its clients."""
    late: int
    """Acceptances that came when the job asked for none any more, or for another round."""
    vanished: int
    """Clients that were gone before their work was done."""
    wasted: int
    """Attempts of clients that chose badly by themselves."""
    events: int

    @property
    def utilisation(self) -> float:
        """Return the working time of clients divided by their available time."""
        return self.working / self.available if self.available else 0.0

    @property
    def over_assign_rate(self) -> float:
        """Return the share of acceptances that were over-assigned."""
        attempts = self.bound + self.over_assigned + self.late
        return self.over_assigned / attempts if attempts else 0.0

    @property
    def unfinished(self) -> int:
        """Return how many jobs did not finish."""
        return sum(job.finished is None for job in self.jobs)

    @property
    def mean_completion_time(self) -> float:
        """Return the mean completion time of all jobs; unfinished ones count until the horizon.

        That is then less than the truth.
        """
        ends = [self.ended if job.finished is None else job.finished for job in self.jobs]
        spans = [end - job.arrival for end, job in zip(ends, self.jobs, strict=True)]
        return sum(spans) / len(spans) if spans else 0.0


@dataclass(slots=True)
class Tally:
    """Accumulates counts and time integrals while a simulation runs."""

    since: float = 0.0
    """How far the integrals reach."""
    here: int = 0
    """Clients that are available now."""
    busy: int = 0
    available: float = 0.0
    working: float = 0.0
    useful: float = 0.0
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("bound", "over_assigned", "late", "vanished"), 0)
    )

    def advance(self, now: float) -> None:
        """Add the time since the last change to the integrals, or since what they begin at."""
        if now <= self.since:
            return
        self.available += self.here * (now - self.since)
        self.working += self.busy * (now - self.since)
        self.since = now
