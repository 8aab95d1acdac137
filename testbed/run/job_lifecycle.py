"""The jobs of a run: started, kept from trial to trial, replaced where an arm needs others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from testbed.analysis.settings import PAYLOAD
from testbed.clock import Deadline
from testbed.control.controller import JobObserved, Observation
from testbed.events import Event
from testbed.jobs.contracts import CircuitRequestingJob
from testbed.record.lease_rules import Resource
from testbed.run.agent_reports import observation
from testbed.run.circuits import make_all_circuits
from testbed.run.context import RunContext
from testbed.run.controllers import ControllerExecutor
from testbed.run.expectation import Predictor, ProbedLinks
from testbed.run.host_reset import RANKS_LIMIT, end_ranks, end_ranks_or_agents, reset_hosts
from testbed.run.inbox import Outcome, Report
from testbed.run.places import Membership
from testbed.run.planning.arm_plans import planned_placements
from testbed.run.planning.controllers import collective_of
from testbed.run.planning.placement import Placement, Placements
from testbed.run.planning.plan import Plan
from testbed.run.planning.prediction import LinkRate, Physics
from testbed.run.planning.profiles import heartbeat, settings, standby
from testbed.run.planning.steps import RunTrial
from testbed.run.running_job import RunningJob
from testbed.run.running_jobs import RunningJobs
from testbed.run.spare_processes import prepare_spares, time_spare_start
from testbed.run.start_controllers import start_controllers
from testbed.run.trial import Trial
from testbed.run.twin_settings import TwinSettings
from testbed.schema import Arm, Experiment
from testbed.units import RATE

_JOIN_LIMIT = 30.0
_ENOUGH = 0.9


class JobLifecycle:
    """Starts, keeps and replaces the jobs of a run. `hosts` are all hosts that the plan uses."""

    def __init__(self, experiment: Experiment, context: RunContext, plan: Plan) -> None:
        self._arms = {arm.name: arm for arm in experiment.arms()}
        self._planned = {arm.name: arm for arm in plan.arms}
        self._lab, self._context, self._seed = context.bench.lab, context, plan.seed
        self._trial_seed = plan.seed
        """That of the block of arms to which the trial belongs."""
        self._settings = TwinSettings(context.twin, context) if context.twin else None
        first = self._placements(experiment.arms()[0])
        self.hosts = first.used
        self.first_circuits = first.owned
        self.last = list(first)[-1]
        """The last job of the plan: all of them begin when its turn comes."""
        self._spare_start: dict[str, float] = {}
        """By job, the seconds that a spare's process takes to start."""
        self._jobs = RunningJobs({})
        self._controllers: ControllerExecutor | None = None
        """Those that live with the jobs."""
        self._started_with: Any = None
        """What the jobs were started with; None once one is broken or over."""
        self._links: dict[str, ProbedLinks] = {}

    def needed_settings(self, run: str) -> frozenset[Resource]:
        """Return the twin settings that must be leased for all arms of a run; none on hardware."""
        if self._settings is None:
            return frozenset()
        labs = (arm.of(self._lab) for arm in self._arms.values())
        return frozenset({self._settings.needs(labs, run)})

    def start_first_jobs(self) -> None:
        """Start the jobs of the first arm, whose circuits are already programmed."""
        self._context.pauses.longest()  # pauses before the first trial are not its own
        arm = next(iter(self._arms.values()))
        self._apply_settings(arm)
        end = partial(end_ranks_or_agents, self._context)
        self._context.cleanup.push("ranks", end, RANKS_LIMIT)
        self._start(arm, self._placements(arm))

    def run_trial(self, plan: RunTrial, *, last: bool) -> None:
        """Run one trial on suitable jobs; unless it is the last trial, prepare the next."""
        arm, context = self._arms[plan.arm], self._context
        self._trial_seed = self._seed + plan.number // len(self._arms)
        self._apply_settings(arm)
        jobs = self._suitable_jobs(arm)
        for name, job in jobs.items():
            prepare_spares(job, warm=standby(arm, name) == "warm")
        controllers = start_controllers(arm.experiment, jobs, context, beside=self._controllers)
        predictors = self._predictors(arm)
        trial = Trial(plan, arm.experiment, jobs, controllers, predictors, context)
        trial.run()
        if last and self._controllers:  # a link that does not come up is waited for no longer
            self._controllers.end()
        if not last:
            reset_hosts(context, jobs.values(), self.hosts, arm.experiment.limits.boot)
            for job in jobs.values():
                job.members.restore_spares()
            # What a pause may have spoilt of the jobs' own measurements is measured anew, and
            # circuits that were moved and ranks that were left out are made anew.
            is_spoilt = trial.failure or trial.pause or controllers.moves_circuits
            if is_spoilt or trial.others.failures or any(map(_is_over, jobs.values())):
                self._end_jobs()
                self._started_with = None

    def handle(self, item: Report | Observation | Outcome) -> None:
        """Log an agent's report, pass it to its job and what lives with it; not in a trial."""
        if isinstance(item, Report):
            self._jobs.record(item, self._context.log, self._follow)
        elif self._controllers:
            self._controllers.handle(item)
        if self._controllers:
            for name, job in self._jobs.items():
                job.failure = job.failure or self._controllers.failure_of(name)

    def _follow(self, job: RunningJob, report: Report, event: Event | None) -> None:
        seen = observation(report, job)
        job.handle(report)
        if seen is not None and self._controllers:
            self._controllers.observe(JobObserved(job.name, seen))

    # --- the jobs ---------------------------------------------------------------------------

    def _placements(self, arm: Arm) -> Placements:
        """Return where the plan has the jobs of an arm."""
        return planned_placements(self._planned[arm.name], arm.experiment)

    def _suitable_jobs(self, arm: Arm) -> RunningJobs:
        """Return the running jobs when they are what the arm wants, else new ones."""
        if self._jobs and self._started_with == self._start_parameters(arm):
            return self._jobs
        context, placements = self._context, self._placements(arm)
        self._end_jobs()
        if any(one.fabric == "circuit" for one in placements.values()):
            make = partial(make_all_circuits, context.bench, placements.owned, context.log)
            context.inbox.in_worker("making the circuits", make, Deadline.after(_JOIN_LIMIT))
        return self._start(arm, placements)

    def _end_jobs(self) -> None:
        """End the controllers that live with the jobs, so that none moves a circuit, and ranks."""
        if self._controllers:
            self._controllers.end()
        end_ranks(self._context)

    def _start(self, arm: Arm, placements: Placements) -> RunningJobs:
        """Start all ranks; connect them and probe their links; then all begin at once.

        A job that went on after its own probes could be over before the first trial, and be in the
        way of those of others. Two that probed a port at once would each find half of its rate.
        """
        made = {name: self._made(arm, placement) for name, placement in placements.items()}
        self._jobs = jobs = RunningJobs(made)
        self._controllers = start_controllers(arm.experiment, jobs, self._context, "job")
        self._controllers.begin()
        for name, job in jobs.items():
            if job.spares:
                self._spare_start[name] = time_spare_start(job)
        for job in jobs.values():
            job.start(Deadline.after(_JOIN_LIMIT))
        self._links = {}
        for names in groups_without_common_hosts({name: job.hosts for name, job in jobs.items()}):
            for name in names:
                jobs[name].join(1, 0, {}, probe=True)
            self._links |= {name: self._probed(jobs[name]) for name in names}
        self._started_with = self._start_parameters(arm)
        for name in jobs:
            self._note_slow_links(arm, name)
        for job in jobs.values():
            job.begin()
        return jobs

    def _made(self, arm: Arm, placement: Placement) -> RunningJob:
        return RunningJob(
            *(
                self._context.bench,
                self._context.inbox,
                placement.job,
                self._seed,
                heartbeat(arm, placement.name),
            ),
            *(Membership(placement.places, placement.spare_places), placement.fabric),
            *(placement.circuits, placement.ring_ports),
            name=placement.name,
            requests=placement.asked,
            trial_seed=self._trial_seed,
            is_recovered=any(
                spec.job == placement.name and "membership" in spec.acts_on
                for spec in arm.experiment.reacting()
            ),
        )

    def _probed(self, job: RunningJob) -> ProbedLinks:
        """Return the links of a job that its ranks have probed, and tell them what follows."""
        job.await_probes(_JOIN_LIMIT)
        # Links inside a host are faster: what the fabric carries decides how long a ring takes.
        links = ProbedLinks.of([job.probes[rank] for rank in job.members.at_borders()])
        job.collective = collective_of(job.job, job.state_bytes, links.cost)
        if isinstance(job.job, CircuitRequestingJob) and (choices := job.job.choices(links.cost)):
            job.tell_all({"do": "choose", "number": 1, "schedules": choices})
        return links

    def _start_parameters(self, arm: Arm) -> tuple[Any, ...]:
        """Return all that jobs are started with, or find then: arms alike in it share jobs."""
        timed = any(links.changes for links in self._links.values())
        return *started_with(arm), arm.of(self._lab).twin if timed else None

    @property
    def _slowest(self) -> LinkRate:
        """Return the rate of the slowest link of all jobs."""
        rates = (links.slowest for links in self._links.values())
        return min(rates, key=lambda rate: rate.bits_per_second)

    def _note_slow_links(self, arm: Arm, job: str) -> None:
        """Say so when this machine is too busy to carry what its twin's ports should."""
        rate, links = arm.of(self._lab).twin.rate, self._links[job]
        ranks, delivered = arm.experiment.jobs[job].ranks_per_host, links.slowest.bits_per_second
        enough = PAYLOAD * rate / (ranks if links.at_once else 1)
        if self._settings and delivered < _ENOUGH * enough:
            text = (
                f"the slowest link delivers {RATE.format(delivered)}, where "
                f"ports of {RATE.format(rate)} should deliver {RATE.format(enough)}: "
                "this machine is too busy, and its own slowness is in every number"
            )
            self._context.log.append("health", "links", text=text)

    # --- what a trial has besides the jobs --------------------------------------------------

    def _predictors(self, arm: Arm) -> dict[str, Predictor]:
        """Return the models of each job, having written down what a trial's numbers rest on."""
        physics, on_twin = self._physics(arm), self._settings is not None
        found = settings(arm, self._lab, physics, self._slowest, on_twin=on_twin)
        self._context.log.append("settings", arm.name, **found)
        return {
            name: Predictor(arm, links, physics, self._spare_start.get(name, 0.0), on_twin)
            for name, links in self._links.items()
        }

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
        slowest = (self._settings.slowest(of, switches) for of in ("settle", "link_up"))
        return Physics(twin.loss_of_signal, *slowest)


def started_with(arm: Arm) -> tuple[Any, ...]:
    """Return what the jobs of an arm are, what they are told, and what controllers live with them.

    A controller that another arm wants with other options needs other jobs.
    """
    jobs = arm.experiment.jobs
    with_jobs = [spec for spec in arm.experiment.reacting() if spec.lives_with == "job"]
    return jobs, [heartbeat(arm, name) for name in jobs], with_jobs


def groups_without_common_hosts(hosts: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """Divide jobs into groups in which no two jobs share a host; yield the names of each group."""
    rest = {name: frozenset(of) for name, of in hosts.items()}
    while rest:
        group: list[str] = []
        taken: frozenset[str] = frozenset()
        for name, own in rest.items():
            if taken.isdisjoint(own):
                group.append(name)
                taken |= own
        yield group
        rest = {name: own for name, own in rest.items() if name not in group}


def _is_over(job: RunningJob) -> bool:
    """Tell whether a job cannot go on in another trial: it has an end, or has lost ranks."""
    return not job.job.endless or len(job.hosts) < job.job.ranks
