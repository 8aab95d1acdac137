"""What many clients do for jobs, by a formula: the limit of the simulation as clients grow.

Jobs ask for fixed shares of the clients. Where these are many, chance averages out, and a round is
known from sums over all clients (`ClientSums`).

A job that asks for `asked` clients finds W waiting: those that it can use, are available, and are
at work for no job. Each of these asks once in `ping` seconds, at an instant of its own, so that the
last client is bound

    S = round_trip + ping asked / W

after the request. Meanwhile sessions begin at the rate available / mean session, and others are
done with their work and ask at once; where W is too small these make up the rest.

A session that is met at any of its instants lasts x more seconds with the probability

    r(x) = sum over sessions of max(0, length - x) / sum of lengths

so of clients bound at one instant the share G(x) = sum of r(T) over the tasks T <= x has given its
result x later, and the share r(x) of the tasks T > x is at work still. Clients are bound evenly
over w = S - round_trip; the round ends R after the last one, where

    asked (mean of G(R + u) over u in [0, w]) = demand

or at `deadline`. The next request follows at once. Each client bound works for the mean of
min(T, what is left of its session); utilisation is the sum of that over what is available.

W and the tasks T are kept by type of client, as those with long tasks are more often at work.

Left out: that two jobs want the same client at one instant and a policy decides (so the formula has
no policy); that clients keep their instants, so that after one request those that still wait are
spread unevenly over `ping`; and chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from statistics import fmean

import numpy as np

from testbed.tenancy.client_sums import CELL, GRID, LONGEST, ClientSums, Numbers, meets
from testbed.tenancy.settings import Settings
from testbed.tenancy.workload import TRAINING_FACTOR, JobSpec

_FINE = 0.001
"""Seconds to which instants are found."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The expected results of a whole simulation; times are means over jobs, in seconds."""

    utilisation: float
    completion: float
    scheduling: float
    response: float
    bound: int


@dataclass(frozen=True, slots=True)
class _Round:
    """The clients of a round by type, bound evenly between two instants."""

    clients: Numbers
    tasks: Numbers
    """Seconds of work by type."""
    begin: float
    filled: float

    @property
    def ends(self) -> float:
        """Return when the last task is done."""
        return self.filled + CELL * float(self.tasks.max())


class _Fluid:
    def __init__(self, sums: ClientSums, settings: Settings) -> None:
        self._settings = settings
        self._period, self._here, self._demands = sums.period, sums.here, sums.demands
        self._kept = np.flatnonzero(sums.types[0])
        there, *of = sums.types[:, self._kept]
        self._latency, self._per_kbit = (each / there for each in of)
        self._share = there / there.sum()
        longer = np.cumsum(sums.sessions[::-1])[::-1]
        self._mean_session = there.sum() / longer[0]
        lasts = np.concatenate(([1.0], 1 - np.cumsum(longer[1:]) / there.sum()))
        self._lasts = np.maximum(lasts, 0.0)
        self._worked = np.concatenate(([0.0], np.cumsum((lasts[1:] + lasts[:-1]) / 2)))
        self._rounds: list[_Round] = []
        self.worked = 0.0
        """Client-seconds of work of all rounds."""

    def available(self, instant: float) -> float:
        """Return how many clients are available at an instant."""
        times = GRID * np.arange(len(self._here))
        return float(np.interp(instant % self._period, times, self._here))

    def run(self, job: JobSpec, begin: float) -> tuple[float, float]:
        """Return the scheduling and the response time of a round of a job."""
        settings = self._settings
        number = self._demands.index((job.public, job.private))
        usable = meets(len(self._demands), number)[self._kept]
        here = usable * self._share * self.available(begin)
        self._rounds = [one for one in self._rounds if one.ends > begin]
        at_work = self._at_work(begin)
        waiting = np.maximum(here - usable * at_work, 0.0)

        def supply(after: float) -> Numbers:
            back = np.maximum(at_work - self._at_work(begin + after), 0.0)
            came = here * (after / self._mean_session)
            supplied: Numbers = waiting * min(after / settings.ping, 1.0) + came + usable * back
            return supplied

        most = settings.ping if waiting.sum() >= job.asked else settings.patience
        window = _first(lambda after: float(supply(after).sum()) >= job.asked, most)
        bound = supply(window)
        bound *= job.asked / bound.sum()
        tasks = (
            TRAINING_FACTOR * job.samples * self._latency / 1000 + 2 * job.model * self._per_kbit
        )
        filled = begin + settings.round_trip + window
        self._rounds.append(_Round(bound, tasks, begin + settings.round_trip, filled))
        self.worked += float(bound @ _at(self._worked, tasks))
        results = bound * _at(self._lasts, tasks)

        def enough(after: float) -> bool:
            return float(results @ _done(tasks, window, after)) >= job.demand

        return filled - begin, _first(enough, settings.deadline)

    def _at_work(self, instant: float) -> Numbers:
        """Return the clients of all rounds that are at work still, by type."""
        if not self._rounds:
            return np.zeros(len(self._kept))
        begin = np.array([one.begin for one in self._rounds])
        filled = np.array([one.filled for one in self._rounds])
        clients = np.array([one.clients for one in self._rounds])
        tasks = np.array([one.tasks for one in self._rounds])
        done = _done(tasks, (filled - begin)[:, None], (instant - filled)[:, None])
        since = np.maximum(instant - (begin + filled) / 2, 0.0).astype(int)
        lasts = self._lasts[np.minimum(since, LONGEST)]
        total: Numbers = (clients * (1.0 - done) * lasts[:, None]).sum(axis=0)
        return total


def predict(sums: ClientSums, jobs: Sequence[JobSpec], settings: Settings) -> Prediction:
    """Return what the formula says of jobs that share the clients of the sums.

    The sums must have the demands of the jobs.
    """
    fluid = _Fluid(sums, settings)
    requests = [(job.arrival, number, 0) for number, job in enumerate(jobs)]
    heapify(requests)
    spans: list[list[tuple[float, float]]] = [[] for _ in jobs]
    ends = [0.0] * len(jobs)
    while requests:
        instant, number, rounds = heappop(requests)
        spans[number].append(fluid.run(jobs[number], instant))
        ends[number] = instant + sum(spans[number][-1])
        if rounds + 1 < jobs[number].rounds:
            heappush(requests, (ends[number], number, rounds + 1))
    begin, end = min(job.arrival for job in jobs), max(ends)
    instants = np.linspace(begin, end, 2 + round((end - begin) / GRID))
    available = (end - begin) * fmean(fluid.available(instant) for instant in instants)
    return Prediction(
        fluid.worked / available,
        fmean(end - job.arrival for end, job in zip(ends, jobs, strict=True)),
        fmean(fmean(one[0] for one in of) for of in spans),
        fmean(fmean(one[1] for one in of) for of in spans),
        sum(job.rounds * job.asked for job in jobs),
    )


def _done(tasks: Numbers, window: float | Numbers, after: float | Numbers) -> Numbers:
    """Return the share of clients by type whose task is done `after` the last of them was bound.

    They were bound evenly over a window, and tasks lie evenly over the cell of their type.
    """
    wide = (CELL - 1) * tasks
    return np.clip((after + window - (tasks - wide / 2)) / (window + wide), 0, 1)


def _at(table: Numbers, seconds: Numbers) -> Numbers:
    """Return the value of a table by whole seconds, between two of them on a line."""
    return np.interp(seconds, np.arange(len(table)), table)


def _first(holds: Callable[[float], bool], most: float) -> float:
    """Return the first instant from which something holds, by bisection, or `most`."""
    least = 0.0
    while most - least > _FINE:
        middle = (least + most) / 2
        least, most = (least, middle) if holds(middle) else (middle, most)
    return most
