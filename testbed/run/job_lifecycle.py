"""The job of a run: started, kept from trial to trial, replaced where an arm needs another."""

from __future__ import annotations

from functools import partial
from typing import Any

from testbed.clock import Deadline
from testbed.control.controller import JobObserved, Observation
from testbed.events.origin import Origin, attributed
from testbed.fabric.circuits import Matching
from testbed.jobs.contracts import CircuitRequestingJob
from testbed.record.lease_rules import Resource
from testbed.run.agent_reports import observation, record
from testbed.run.circuits import make_circuits
from testbed.run.context import RunContext
from testbed.run.controllers import ControllerExecutor
from testbed.run.expectation import Predictor, ProbedLinks
from testbed.run.host_reset import RANKS_LIMIT, end_ranks, end_ranks_or_agents, reset_hosts
from testbed.run.inbox import Outcome, Report
from testbed.run.places import Membership
from testbed.run.planning.controllers import collective_of
from testbed.run.planning.placement import Placement, place
from testbed.run.planning.prediction import Physics
from testbed.run.planning.profiles import heartbeat, settings, standby
from testbed.run.planning.steps import RunTrial
from testbed.run.running_job import RunningJob
from testbed.run.start_controllers import start_controllers
from testbed.run.trial import Trial
from testbed.run.twin_settings import TwinSettings
from testbed.schema import Arm, Experiment
from testbed.units import RATE

_JOIN_LIMIT = 30.0
_PAYLOAD = 0.956
"""Share of a link's rate that TCP payload can have, in Ethernet frames of 1500 bytes."""

_ENOUGH = 0.9


class JobLifecycle:
    """Starts, keeps and replaces the job of a run. `hosts` are all hosts that the plan uses."""

    def __init__(self, experiment: Experiment, context: RunContext, seed: int) -> None:
        self._arms = {arm.name: arm for arm in experiment.arms()}
        self._lab, self._context, self._seed = context.bench.lab, context, seed
        self._settings = TwinSettings(context.twin, context) if context.twin else None
        first = place(experiment.arms()[0].experiment, self._lab)
        self.hosts = first.used
        self.first_circuits: Matching = first.circuits
        self._spare_start = 0.0
        """Seconds that a spare's process takes to start."""
        self._job: RunningJob | None = None
        self._controllers: ControllerExecutor | None = None
        """Those that live with the job."""
        self._started_with: Any = None
        """What the job was started with; None once it is broken or over."""
        self._links: ProbedLinks | None = None

    def needed_settings(self, run: str) -> frozenset[Resource]:
        """Return the twin settings that must be leased for all arms of a run; none on hardware."""
        if self._settings is None:
            return frozenset()
        labs = (arm.of(self._lab) for arm in self._arms.values())
        return frozenset({self._settings.needs(labs, run)})

    def start_first_job(self) -> None:
        """Start the job of the first arm, whose circuits are already programmed."""
        self._context.pauses.longest()  # pauses before the first trial are not its own
        arm = next(iter(self._arms.values()))
        self._apply_settings(arm)
        end = partial(end_ranks_or_agents, self._context)
        self._context.cleanup.push("ranks", end, RANKS_LIMIT)
        self._start(arm, place(arm.experiment, self._lab))

    def run_trial(self, plan: RunTrial, *, last: bool) -> None:
        """Run one trial on a suitable job; unless it is the last trial, prepare the next."""
        arm = self._arms[plan.arm]
        self._apply_settings(arm)
        job = self._suitable_job(arm)
        job.prepare_spares(warm=standby(arm) == "warm")
        controllers = start_controllers(
            arm.experiment, job, self._context.log, beside=self._controllers
        )
        predictor = self._predictor(arm)
        trial = Trial(plan, arm.experiment, job, controllers, predictor, self._context)
        trial.run()
        if not last:
            reset_hosts(self._context, job, self.hosts, arm.experiment.limits.boot)
            job.members.restore_spares()
            # What a pause may have spoilt of the job's own measurements is measured anew, and
            # circuits that were moved and ranks that were left out are made anew.
            has_shrunk = len(job.hosts) < job.job.ranks
            is_spoilt = trial.failure or trial.pause or controllers.moves_circuits or has_shrunk
            if is_spoilt or not job.job.endless:
                end_ranks(self._context)
                self._started_with = None

    def handle(self, item: Report | Observation | Outcome) -> None:
        """Log an agent's report, pass it to the job and what lives with it; not in a trial."""
        job, controllers = self._job, self._controllers
        if isinstance(item, Report):
            with attributed(Origin(job.name if job else "")):
                event = record(item, job.rank_in(item) if job else None, self._context.log)
                with attributed(Origin(cause=event.seq if event else None)):
                    if job and controllers:
                        seen = observation(item, job)
                        job.handle(item)
                        if seen is not None:
                            controllers.observe(JobObserved(job.name, seen))
        elif controllers:
            controllers.handle(item)
        if job and controllers:
            job.failure = job.failure or controllers.failure

    # --- the job ----------------------------------------------------------------------------

    def _suitable_job(self, arm: Arm) -> RunningJob:
        """Return the running job when it is what the arm wants, else a new one."""
        if self._job is not None and self._started_with == self._start_parameters(arm):
            return self._job
        context, placement = self._context, place(arm.experiment, self._lab)
        end_ranks(context)
        if placement.fabric == "circuit":
            make = partial(make_circuits, context.bench, placement.circuits, context.log)
            context.inbox.in_worker("making the circuits", make, Deadline.after(_JOIN_LIMIT))
        return self._start(arm, placement)

    def _start(self, arm: Arm, placement: Placement) -> RunningJob:
        """Start the ranks, connect them and probe the links."""
        bench, inbox, log = self._context.bench, self._context.inbox, self._context.log
        job = RunningJob(
            *(bench, inbox, placement.job, self._seed, heartbeat(arm)),
            *(Membership(placement.places, placement.spare_places), placement.fabric),
            *(placement.circuits, placement.ring_ports),
            name=placement.name,
            requests=placement.asked,
        )
        self._job = job
        self._controllers = start_controllers(arm.experiment, job, log, "job")
        self._controllers.begin()
        if job.spares:
            self._spare_start = job.time_spare_start()
        job.start(Deadline.after(_JOIN_LIMIT))
        job.join(1, 0, {}, probe=True)
        job.await_probes(Deadline.after(_JOIN_LIMIT))
        self._links = links = ProbedLinks.of(job.probes)
        job.collective = collective_of(job.job, job.state_bytes, links.cost)
        self._started_with = self._start_parameters(arm)
        if isinstance(job.job, CircuitRequestingJob) and (choices := job.job.choices(links.cost)):
            job.tell_all({"do": "choose", "number": 1, "schedules": choices})
        self._note_slow_links(arm, links)
        return job

    def _start_parameters(self, arm: Arm) -> tuple[Any, ...]:
        """Return all that ranks are told, or find, at their start: arms alike in it share a job."""
        found = arm.of(self._lab).twin if self._links and self._links.changes else None
        return arm.experiment.jobs, heartbeat(arm), found

    def _note_slow_links(self, arm: Arm, links: ProbedLinks) -> None:
        """Say so when this machine is too busy to carry what its twin's ports should."""
        rate, delivered = arm.of(self._lab).twin.rate, links.slowest.bits_per_second
        ranks = max(job.ranks_per_host for job in arm.experiment.jobs.values())
        enough = _PAYLOAD * rate / (ranks if links.at_once else 1)
        if self._settings and delivered < _ENOUGH * enough:
            text = (
                f"the slowest link delivers {RATE.format(delivered)}, where "
                f"ports of {RATE.format(rate)} should deliver {RATE.format(enough)}: "
                "this machine is too busy, and its own slowness is in every number"
            )
            self._context.log.append("health", "links", text=text)

    # --- what a trial has besides the job ---------------------------------------------------

    def _predictor(self, arm: Arm) -> Predictor:
        """Return the models for a trial, having written down what its numbers rest on."""
        assert self._links is not None
        physics, on_twin = self._physics(arm), self._settings is not None
        found = settings(arm, self._lab, physics, self._links.slowest, on_twin=on_twin)
        self._context.log.append("settings", arm.name, **found)
        return Predictor(arm, self._links, physics, self._spare_start, on_twin)

    def _apply_settings(self, arm: Arm) -> None:
        if self._settings:
            self._settings.follow(arm.of(self._lab))

    def _physics(self, arm: Arm) -> Physics:
        """Return the delays of the twin, or on hardware those that the switches declare."""
        switches = self._context.bench.switches
        if self._settings is None:
            settle = max((s.capabilities.settle for s in switches.values()), default=0.0)
            return Physics(0.0, settle, 0.0)
        twin = arm.of(self._lab).twin
        return Physics(twin.loss_of_signal, self._settings.settle(switches), twin.link_up)
