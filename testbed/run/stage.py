"""The job across trials: started, handed from trial to trial, built anew when it broke."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from testbed.bench.parallel import run_parallel
from testbed.clock import Deadline, now
from testbed.collectives.cost import Links
from testbed.errors import HostError, LabError
from testbed.fabric.circuits import Matching
from testbed.jobs.words import Predicting, Repointing, Stepping
from testbed.plugins import kind
from testbed.record.lease_rules import Resource
from testbed.run.chooser import Chooser
from testbed.run.circuits import make_circuits
from testbed.run.expectation import expected
from testbed.run.far_end_plan import breaks
from testbed.run.inbox import Report
from testbed.run.job import SLOT, RunningJob
from testbed.run.placement import Placement, place
from testbed.run.plan import FaultPlan, RunTrial
from testbed.run.prediction import LinkRate, Physics, predict
from testbed.run.profiles import expectations, heartbeat, settings
from testbed.run.recovery import Recovery
from testbed.run.repointing import Requests
from testbed.run.reports import record
from testbed.run.trial import Around, Predict, Trial
from testbed.run.tuning import Tuning, TwinDoor
from testbed.schema import Arm, Experiment, Lab
from testbed.units import RATE

_JOIN_LIMIT = 30.0
_RANKS_LIMIT = 10.0
_POWER_LIMIT = 15.0
_ANSWER_LIMIT = 1.0
_PAYLOAD = 0.956
"""Share of a link's rate that TCP payload can have, in Ethernet frames of 1500 bytes."""

_ENOUGH = 0.9

_T = TypeVar("_T")


class Stage:
    """Where trials are played. `hosts` are all hosts that the plan uses."""

    def __init__(
        self,
        experiment: Experiment,
        lab: Lab,
        around: Around,
        seed: int,
        twin: TwinDoor | None,
    ) -> None:
        self._arms = {arm.name: arm for arm in experiment.arms()}
        self._lab = lab
        self._around = around
        self._seed = seed
        self._tuning: Tuning | None = None
        if twin:
            self._tuning = Tuning(twin, around.bench.guard, around.journal, around.cleanup)
        first = place(experiment.arms()[0].experiment, lab)
        self.hosts = (*first.hosts, *first.spares)
        self.first_circuits: Matching = first.circuits
        self._job: RunningJob | None = None
        self._made_for: Any = None
        self._link = LinkRate(1.0, 0.0)
        self._cost = Links(0.0, 0.0)
        self._start_seconds = 0.0

    def settings(self, run: str) -> frozenset[Resource]:
        """Return what of the twin's settings a run of all arms needs; nothing on hardware."""
        if self._tuning is None:
            return frozenset()
        labs = (arm.of(self._lab) for arm in self._arms.values())
        return frozenset({self._tuning.needs(labs, run)})

    def start_first_job(self) -> None:
        """Start the job of the first arm, whose circuits are programmed already."""
        self._around.standstill.longest()  # what was before is nobody's
        arm = next(iter(self._arms.values()))
        if self._tuning:
            self._tuning.follow(arm.of(self._lab))
        self._around.cleanup.push("ranks", self._end_ranks_or_drop, _RANKS_LIMIT)
        self._start(arm, place(arm.experiment, self._lab))

    def play(self, plan: RunTrial, *, last: bool) -> None:
        """Run one trial on a job that suits it; unless it is the last, make ready for the next."""
        arm = self._arms[plan.arm]
        if self._tuning:
            self._tuning.follow(arm.of(self._lab))
        job = self._suitable_job(arm)
        self._prepare_spare(arm, job)
        recovery = self._recovery(arm, job)
        predict, chooser = self._predictor(arm), self._chooser(job)
        self._note_settings(arm)
        trial = Trial(plan, arm.experiment, job, recovery, predict, self._around, chooser)
        trial.run()
        if not last:
            boot = arm.experiment.limits.boot
            # What a pause may have spoilt of the job's own measurements is measured anew.
            is_well = not trial.failure and not trial.pause
            self._clear_up(job, boot, goes_on=is_well and job.job.endless)

    # --- the job ----------------------------------------------------------------------------

    def _suitable_job(self, arm: Arm) -> RunningJob:
        """Return the running job when it is what the arm wants, else a new one."""
        if self._job is not None and self._made_for == self._makings(arm, self._job):
            return self._job
        self._wait("ending the ranks", self._end_all_ranks, _RANKS_LIMIT)
        placement = place(arm.experiment, self._lab)
        bench, log = self._around.bench, self._around.log
        if placement.fabric == "circuit":
            self._wait(
                "making the circuits",
                lambda limit: make_circuits(bench, placement.circuits, log, limit),
                _JOIN_LIMIT,
            )
        return self._start(arm, placement)

    def _start(self, arm: Arm, placement: Placement) -> RunningJob:
        """Start the ranks, connect them and probe the links."""
        around = self._around
        job = RunningJob(
            around.bench,
            around.inbox,
            placement.job,
            self._seed,
            heartbeat(arm),
            placement.hosts,
            placement.spares,
            placement.fabric,
        )
        if placement.asked:
            job.requests = Requests(around.bench, around.log, placement.asked, job.tell)
        self._job = job
        probes: list[Mapping[str, Any]] = []
        around.inbox.handler = lambda item: self._hear(item, job, probes)
        self._time_a_start(job)
        job.start(Deadline.after(_JOIN_LIMIT))
        job.join(1, 0, {}, probe=True)
        ready = around.inbox.wait(
            lambda: len(probes) == len(job.hosts) or bool(job.failure), Deadline.after(_JOIN_LIMIT)
        )
        if job.failure or not ready:
            raise LabError(f"the job did not start: {job.failure or 'its links were not probed'}")
        self._link, self._cost = _slowest(probes), _usual(probes)
        job.changes = _changes(probes)
        self._made_for = self._makings(arm, job)
        if isinstance(job.job, Repointing) and (choices := job.job.choices(self._cost)):
            for rank in range(len(job.hosts)):
                job.tell(rank, {"do": "choose", "number": 1, "schedules": choices})
        self._note_slow_links(arm)
        return job

    def _note_settings(self, arm: Arm) -> None:
        """Write down what the numbers of the trial rest on."""
        on_twin = self._tuning is not None
        found = settings(arm, self._lab, self._physics(arm), self._link, on_twin=on_twin)
        self._around.log.append("settings", arm.name, **found)

    def _note_slow_links(self, arm: Arm) -> None:
        """Say so when this machine is too busy to carry what its twin's ports should."""
        rate = arm.of(self._lab).twin.rate
        if self._tuning and self._link.bits_per_second < _ENOUGH * _PAYLOAD * rate:
            text = (
                f"the slowest link delivers {RATE.format(self._link.bits_per_second)}, where "
                f"ports of {RATE.format(rate)} should deliver {RATE.format(_PAYLOAD * rate)}: "
                "this machine is too busy, and its own slowness is in every number"
            )
            self._around.log.append("health", "links", text=text)

    def _makings(self, arm: Arm, job: RunningJob) -> tuple[Any, ...]:
        """Return all that ranks are told, or find, at their start: arms alike in it share a job."""
        found = arm.of(self._lab).twin if job.changes else None
        return arm.experiment.jobs, heartbeat(arm), found

    def _time_a_start(self, job: RunningJob) -> None:
        """Start a rank on a spare host and end it again: how long a cold spare will take."""
        for host in job.spares[:1]:
            began = now()
            job.start_one(host, Deadline.after(_JOIN_LIMIT))
            job.await_ready(host, Deadline.after(_JOIN_LIMIT))
            self._start_seconds = now() - began
            self._end_spare(job, host)

    def _end_spare(self, job: RunningJob, host: str) -> None:
        spare = self._around.bench.hosts[host]
        self._wait(
            f"ending the rank on {host}", lambda limit: spare.end_rank(SLOT, limit), _RANKS_LIMIT
        )
        job.seats.pop(host, None)

    def _hear(self, item: Any, job: RunningJob, probes: list[Mapping[str, Any]]) -> None:
        if not isinstance(item, Report):
            return
        record(item, job.rank_of(item.host), self._around.log)
        job.hear(item)
        said = item.message.get("said", {})
        if said.get("event") == "probe":
            probes.append(said)

    # --- before and after a trial -----------------------------------------------------------

    def _prepare_spare(self, arm: Arm, job: RunningJob) -> None:
        """Have the first spare's rank running, or no spare's, as the policy says."""
        policy = arm.experiment.policy
        standby = getattr(policy and policy.options, "standby", "cold")
        warm = job.spares[:1] if standby == "warm" else ()
        for host in job.spares:
            if host in warm and host not in job.seats:
                job.start_one(host, Deadline.after(_RANKS_LIMIT))
            elif host not in warm and host in job.seats:
                self._end_spare(job, host)
        for host in warm:
            job.await_ready(host, Deadline.after(_RANKS_LIMIT))

    def _recovery(self, arm: Arm, job: RunningJob) -> Recovery | None:
        spec = arm.experiment.policy
        if spec is None:
            return None
        policy = kind("policies", spec.kind).load()(spec.options)
        around = self._around
        return Recovery(policy, around.bench, job, around.inbox, around.log)

    def _chooser(self, job: RunningJob) -> Chooser | None:
        if not isinstance(job.job, Stepping) or job.job.chooses is None:
            return None
        size = job.job.gradient_bytes(job.state_bytes)
        return Chooser(job.job.chooses, size, self._cost, self._around.log, job.choose)

    def _predictor(self, arm: Arm) -> Predict:
        policy = arm.experiment.policy
        cold = getattr(policy and policy.options, "standby", "cold") == "cold"
        physics = self._physics(arm)

        def terms(fault: FaultPlan | None, job: RunningJob, step: float) -> Mapping[str, Any]:
            if isinstance(job.job, Predicting) or fault is None or not breaks(fault.kind):
                return expected(job, arm, fault, self._cost, step)
            under = partial(
                predict,
                fault.kind,
                heartbeat=job.heartbeat,
                state_bytes=job.state_bytes,
                link=self._link,
                step=step,
                start=self._start_seconds if cold else 0.0,
                hold=fault.hold or 0.0,
            )
            elsewhere = list(expectations(physics, under)) if self._tuning else []
            return {**under(physics), "profiles": elsewhere}

        return terms

    def _physics(self, arm: Arm) -> Physics:
        """Return the delays of the twin, or on hardware those that the switches declare."""
        if self._tuning:
            twin = arm.of(self._lab).twin
            return Physics(
                twin.loss_of_signal, self._tuning.settle(self._around.bench.switches), twin.link_up
            )
        switches = self._around.bench.switches.values()
        return Physics(0.0, max((s.capabilities.settle for s in switches), default=0.0), 0.0)

    def _clear_up(self, job: RunningJob, boot: float, *, goes_on: bool) -> None:
        """Bring every host back, and end a job that is broken or over."""
        bench = self._around.bench
        # The trial's policy must not take what follows for failures.
        self._around.inbox.handler = lambda item: self._hear(item, job, [])
        self._wait("asking the hosts", self._drop_silent_hosts, _ANSWER_LIMIT)
        self._wait("giving power back", bench.power.restore_all, _POWER_LIMIT)
        for host in self.hosts:
            if host not in bench.hosts:
                job.seats.pop(host, None)
                self._wait(f"opening {host}", partial(bench.reopen_host, host), boot)
        job.spares = tuple(host for host in self.hosts if host not in job.hosts)
        if not goes_on:
            self._wait("ending the ranks", self._end_all_ranks, _RANKS_LIMIT)
            self._job = None

    def _drop_silent_hosts(self, deadline: Deadline) -> None:
        """Forget the agents that do not answer; their hosts are opened anew, if they are there."""
        bench = self._around.bench

        def ask(name: str) -> None:
            try:
                bench.hosts[name].link.ask("alive", deadline)
            except HostError as error:
                text = f"its agent is given up after the trial: {error}"
                self._around.log.append("note", name, text=text)
                bench.drop_host(name)

        run_parallel(ask, list(bench.hosts))

    def _end_all_ranks(self, deadline: Deadline) -> None:
        """Kill every rank and prove it gone; those of a host without power are."""
        bench = self._around.bench
        bench.drop_cut_hosts()
        run_parallel(lambda host: host.end_rank(SLOT, deadline), list(bench.hosts.values()))

    def _end_ranks_or_drop(self, deadline: Deadline) -> None:
        """Kill every rank; a host that cannot prove it is asked by a new agent in the end."""
        bench = self._around.bench
        bench.drop_cut_hosts()

        def end(name: str) -> None:
            try:
                bench.hosts[name].end_rank(SLOT, deadline)
            except HostError as error:
                text = f"its ranks are ended with its agent: {error}"
                self._around.log.append("note", name, text=text)
                bench.drop_host(name)

        run_parallel(end, list(bench.hosts))

    def _wait(self, what: str, action: Callable[[Deadline], _T], limit: float) -> _T:
        """Do something that blocks in a worker, so that a signal ends the wait at once."""
        deadline = Deadline.after(limit)
        inbox = self._around.inbox
        return inbox.result(inbox.submit(lambda: action(deadline)), deadline, what)


def _usual(probes: list[Mapping[str, Any]]) -> Links:
    """Return what messages cost between neighbours, by the median of the probes."""
    there_and_back = statistics.median(probe["short_seconds"] for probe in probes)
    per_byte = [probe["long_seconds"] / probe["long_bytes"] for probe in probes]
    changes = _changes(probes)
    delta = statistics.median(changes) if changes else 0.0
    credit = statistics.median(probe.get("credit", 0.0) for probe in probes)
    return Links(there_and_back / 2, statistics.median(per_byte), delta, credit)


def _changes(probes: list[Mapping[str, Any]]) -> list[float]:
    """Return what each change of circuits that the ranks timed took, by the median of the ranks."""
    timed = [probe.get("changes", []) for probe in probes]
    return [statistics.median(one) for one in zip(*timed, strict=True)]


def _slowest(probes: list[Mapping[str, Any]]) -> LinkRate:
    """Return what the slowest link delivers, and the credit that its short messages showed."""
    worst = max(probes, key=lambda probe: probe["long_seconds"] / probe["long_bytes"])
    rate = worst["long_bytes"] * 8 / worst["long_seconds"]
    credit = worst["short_bytes"] - worst["short_seconds"] * rate / 8
    return LinkRate(rate, max(0.0, credit))
