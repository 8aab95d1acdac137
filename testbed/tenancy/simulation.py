"""A discrete-event simulation of jobs and clients under a policy, in virtual time.

Jobs and clients follow the rules of `jobs`, `clients` and `binding`, with the same records. A
client checks in when it becomes available or has done its work, and asks again every `ping`
seconds. It accepts its offers one after the other, `round_trip` seconds each; another client may
have been faster. It works from its binding on, for as long as the model of `workload` says, unless
it vanishes before. A round ends when it has the results that it needs, or `deadline` seconds after
its last client; a request that is not filled within `patience` seconds is ended by its job.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from testbed.tenancy.agenda import Agenda
from testbed.tenancy.binding import accept
from testbed.tenancy.deciding import Baseline, decider
from testbed.tenancy.jobs import SILENCE, Job
from testbed.tenancy.outcome import Outcome, Tally
from testbed.tenancy.replies import Reply
from testbed.tenancy.requests import Census, Signature, signature
from testbed.tenancy.running import RunningJob
from testbed.tenancy.settings import Settings
from testbed.tenancy.simulated import SimulatedClient, State
from testbed.tenancy.traces import Trace
from testbed.tenancy.waiting import Place, Rotation
from testbed.tenancy.workload import JobSpec


def simulate(
    trace: Trace,
    jobs: Sequence[JobSpec],
    role: str,
    policy: Any,
    seed: int,
    settings: Settings | None = None,
) -> Outcome:
    """Simulate jobs on the clients of a trace, under a policy, until all have ended."""
    return _Simulation(trace, jobs, role, policy, seed, settings or Settings()).run()


class _Simulation:
    def __init__(
        self,
        trace: Trace,
        specs: Sequence[JobSpec],
        role: str,
        policy: Any,
        seed: int,
        settings: Settings,
    ) -> None:
        self._settings = settings
        self._specs = specs
        self._chance = Random(seed)
        self._agenda = Agenda()
        self._tally = Tally(since=min((spec.arrival for spec in specs), default=0.0))
        self._jobs: dict[str, RunningJob] = {}
        self._records: dict[str, Job] = {}
        self._left = len(specs)
        self._decider = decider(role, policy, self._records, specs, self._chance)
        self._rotations: dict[Any, Rotation] = defaultdict(lambda: Rotation(settings.ping))
        self._here: Counter[Signature] = Counter()
        self._ticking = False
        self._clients = [
            SimulatedClient(number, client, trace.period / 1000)
            for number, client in enumerate(trace.clients)
        ]

    def run(self) -> Outcome:
        demanded = frozenset(spec.public for spec in self._specs)
        for client in self._clients:
            client.met = signature(client.trace.attributes, demanded)
            client.kind = self._decider.kind(client.trace, client.met)
            self._expect(client)
        for spec in self._specs:
            self._agenda.at(spec.arrival, self._arrive, spec)
        while self._left and self._agenda.step(self._settings.horizon):
            pass
        return self._outcome()

    def _outcome(self) -> Outcome:
        ended = self._settings.horizon if self._left else self._agenda.now
        self._tally.advance(ended)
        return Outcome(
            jobs=tuple(job.outcome() for job in self._jobs.values()),
            ended=ended,
            available=self._tally.available,
            working=self._tally.working,
            useful=self._tally.useful,
            wasted=self._decider.wasted if isinstance(self._decider, Baseline) else 0,
            events=self._agenda.events,
            **self._tally.counts,
        )

    # --- clients come and go ---------------------------------------------------------------

    def _expect(self, client: SimulatedClient) -> None:
        session = client.next_session(self._agenda.now)
        if session is not None:
            self._agenda.at(session[0], self._come, client, session[1])

    def _come(self, client: SimulatedClient, until: float) -> None:
        self._tally.advance(self._agenda.now)
        self._tally.here += 1
        self._here[client.met] += 1
        if until < math.inf:
            self._agenda.at(until, self._go, client)
        self._check_in(client)

    def _go(self, client: SimulatedClient) -> None:
        self._tally.advance(self._agenda.now)
        self._tally.here -= 1
        self._here[client.met] -= 1
        if client.state is State.WAITING:
            self._rotations[client.kind].discard(client.place)
        elif client.state is State.WORKING:
            self._tally.busy -= 1
            self._tally.counts["vanished"] += 1
        client.state = State.AWAY
        client.epoch += 1
        self._expect(client)

    def _check_in(self, client: SimulatedClient) -> None:
        client.epoch += 1
        client.place = self._agenda.now % self._settings.ping, client.number
        self._ask(client)

    # --- clients ask and accept ------------------------------------------------------------

    def _ask(self, client: SimulatedClient) -> None:
        """Give a client offers, or have it wait."""
        offers = [self._jobs[j] for j in self._decider.offers(client.kind, client.trace.speed)]
        useful = tuple(
            (job, job.record.round) for job in offers if job.suits(client.trace.id, client.private)
        )
        if useful:
            client.state = State.ACCEPTING
            client.check_in(self._agenda.now)
            self._later(self._accept, client, client.epoch, useful)
            return
        client.state = State.WAITING
        rotation = self._rotations[client.kind]
        if self._decider.may_offer(client.kind) and not self._decider.draws_each_time:
            rotation.park(client.place)
        else:
            rotation.add(client.place)
            self._wake(client.kind)

    def _later(self, act: Callable[..., None], *arguments: Any) -> None:
        self._agenda.after(self._settings.round_trip, act, *arguments)

    def _accept(
        self, client: SimulatedClient, epoch: int, offers: tuple[tuple[RunningJob, int], ...]
    ) -> None:
        if epoch != client.epoch:
            return
        (job, round), rest = offers[0], offers[1:]
        reply, record, client.record = accept(job.record, client.record, round, self._agenda.now)
        assert record is not None
        job.record = record
        if reply is Reply.OK:
            self._work(client, job)
            return
        self._tally.counts["over_assigned" if reply is Reply.OVER_ASSIGN else "late"] += 1
        if rest:
            self._later(self._accept, client, epoch, rest)
            return
        client.state = State.WAITING
        self._rotations[client.kind].add(client.place)
        self._rotations[client.kind].forget_plan()
        self._wake(client.kind)

    def _wake(self, kind: Any, after: Place | None = None) -> None:
        """Have the next client of a kind ask, unless there is nothing to be had.

        With `after`, that is the one that has just asked.
        """
        rotation = self._rotations[kind]
        if rotation.is_asking and after is None:
            return
        following = None
        if self._decider.may_offer(kind):
            following = rotation.next(self._agenda.now, after)
        rotation.is_asking = following is not None
        if following is not None:
            self._agenda.at(following[0], self._poll, kind, rotation.version, following[1])

    def _poll(self, kind: Any, version: int, place: Place) -> None:
        rotation = self._rotations[kind]
        if version != rotation.version:
            return
        if rotation.discard(place):
            self._ask(self._clients[place[1]])
        self._wake(kind, place)

    def _offers_grew(self) -> None:
        """Make every client ask for offers that may get one now."""
        for kind, rotation in self._rotations.items():
            rotation.unpark()
            rotation.forget_plan()
            self._wake(kind)

    # --- work, rounds, jobs ----------------------------------------------------------------

    def _work(self, client: SimulatedClient, job: RunningJob) -> None:
        self._tally.advance(self._agenda.now)
        self._tally.busy += 1
        self._tally.counts["bound"] += 1
        client.state = State.WORKING
        client.began = self._agenda.now
        doing = client, client.epoch, job, job.record.round
        self._agenda.after(job.spec.task_time(client.trace), self._done, *doing)
        if not job.is_open:
            self._decider.changed(job.record)
            self._await_results(job)

    def _done(self, client: SimulatedClient, epoch: int, job: RunningJob, round: int) -> None:
        if epoch != client.epoch:
            return
        self._tally.advance(self._agenda.now)
        self._tally.busy -= 1
        if job.take_result(round):
            self._tally.useful += self._agenda.now - client.began
            if job.has_enough:
                self._end_round(job)
        self._check_in(client)

    def _await_results(self, job: RunningJob) -> None:
        self._agenda.after(self._settings.deadline, self._expire, job, job.record.round)

    def _expire(self, job: RunningJob, round: int) -> None:
        """End a round whose results are too late."""
        if job.record.round == round and job.is_waiting:
            self._end_round(job)

    def _lose_patience(self, job: RunningJob, round: int) -> None:
        """End a request that was not filled."""
        if job.record.round == round and job.is_open:
            job.end_request(self._agenda.now)
            self._decider.changed(job.record)
            self._await_results(job)

    def _end_round(self, job: RunningJob) -> None:
        if job.end_round(self._agenda.now):
            self._left -= 1
            self._decider.changed(job.record)
        else:
            self._request(job)

    def _arrive(self, spec: JobSpec) -> None:
        job = RunningJob(spec, self._records, self._agenda.now, self._chance.random())
        self._jobs[spec.id] = job
        self._stay_known(job)
        self._request(job)

    def _stay_known(self, job: RunningJob) -> None:
        """Have a job be heard of, so that it is not pruned."""
        if not job.record.is_over:
            job.stay_known(self._agenda.now)
            self._agenda.after(SILENCE / 3, self._stay_known, job)

    def _request(self, job: RunningJob) -> None:
        job.request(self._agenda.now, self._chance.random())
        patience = self._settings.patience
        self._agenda.after(patience, self._lose_patience, job, job.record.round)
        if self._decider.changed(job.record):
            self._offers_grew()
        period = self._decider.period
        if not self._ticking and period:
            self._ticking = True
            self._agenda.at(math.floor(self._agenda.now / period + 1) * period, self._tick)

    def _tick(self) -> None:
        """Divide the clients anew, as long as any job asks for some."""
        if self._decider.divide(self._census):
            self._offers_grew()
        self._ticking = any(job.is_open for job in self._jobs.values())
        if self._ticking:
            self._agenda.after(self._decider.period, self._tick)

    def _census(self) -> Census:
        waiting: dict[Signature, list[float]] = defaultdict(list)
        if self._decider.uses_speeds:
            for rotation in self._rotations.values():
                for number in rotation.waiting():
                    client = self._clients[number]
                    waiting[client.met].append(client.trace.speed)
        return Census(dict(self._here), waiting)
