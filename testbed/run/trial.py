"""One trial: run the jobs, inject faults, wait for the recoveries, undo the faults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from testbed.clock import Deadline
from testbed.control.controller import JobObserved
from testbed.control.protocol import AgentLost
from testbed.errors import BusyError, LabError
from testbed.events import Event
from testbed.events.origin import Origin, attributed
from testbed.run.agent_reports import observation, timed_step
from testbed.run.context import RunContext
from testbed.run.controllers import ControllerExecutor
from testbed.run.expectation import Predictor
from testbed.run.fault_injection import FarEndFaults
from testbed.run.inbox import Report
from testbed.run.job_faults import JobFaults
from testbed.run.other_jobs import OtherJobs
from testbed.run.planning.fault_plans import breaks, struck_jobs, struck_later
from testbed.run.planning.steps import FaultPlan, RunTrial
from testbed.run.response_tracker import ResponseTracker
from testbed.run.running_job import RunningJob
from testbed.run.running_jobs import RunningJobs
from testbed.run.step_record import NEAR, StepRecord
from testbed.run.struck_job import StruckJob
from testbed.schema import Experiment

_CLOCK_LIMIT = 5.0
_READ_LIMIT = 10.0


@dataclass(eq=False)
class Trial:
    """One planned trial on running jobs, of which its faults strike some."""

    plan: RunTrial
    experiment: Experiment
    jobs: RunningJobs
    controllers: ControllerExecutor
    predictors: Mapping[str, Predictor]
    context: RunContext
    pause: float = 0.0
    """Seconds for which this process was paused since the trial before, or the first start."""

    def __post_init__(self) -> None:
        """Note where the jobs are now."""
        context = self.context
        self._inbox, self._log = context.inbox, context.log
        self._limit = self.experiment.limits.trial
        # Without a fault, the first job is waited for as if it were struck.
        named = struck_jobs(self.experiment) or tuple(self.jobs)[:1]
        self.struck = {name: self._struck(self.jobs[name]) for name in named}
        others = [one for name, one in self.jobs.items() if name not in self.struck]
        self.others = OtherJobs(others, self.controllers, context.inbox, context.log)
        self._far_ends = FarEndFaults(context)
        self._faults = JobFaults(self.experiment, context)
        self._clocks = context.bench.clocks.known
        every = self.experiment.record.steps
        self._records = {
            name: StepRecord(self._log, every, one.job.last_step) for name, one in self.jobs.items()
        }

    def _struck(self, job: RunningJob) -> StruckJob:
        plans = [plan for plan in self.plan.faults if plan.job == job.name]
        return StruckJob(job, plans, self.controllers, self._inbox, self._limit)

    @property
    def failure(self) -> str:
        """Return why a job that was struck cannot go on after the trial, when one cannot."""
        return next((one.failure for one in self.struck.values() if one.failure), "")

    def run(self) -> None:
        """Run the trial and undo its faults; `failure` is then the error of a struck job."""
        with self._inbox.handled_by(self._handle):
            try:
                self._run(Deadline.after(self._limit))
            finally:
                self.controllers.stop()

    def _run(self, deadline: Deadline) -> None:
        several: dict[str, Any] = {"jobs": list(self.jobs)} if len(self.jobs) > 1 else {}
        first = next(iter(self.struck.values()))
        begun = self._log.append(
            "trial.begin", self.plan.arm, generation=first.job.generation, **several
        )
        self._measure_clocks()
        for one in self.struck.values():
            one.responses = ResponseTracker(len(one.job.hosts), self._clocks)
            one.responses.handle(begun)
        self.controllers.begin()
        self._begin_far_end_faults(first, deadline)
        if not self.plan.faults:
            self._note_prediction((), self.jobs)
            self._await_ends(deadline)
        else:
            self._run_with_faults(self.plan.faults, deadline)
        self._name_switches()
        self._note_failures()
        self.others.wait_for_ends(deadline, self._limit)
        self._revise_prediction()
        self.others.measure(deadline)
        for name, one in self.struck.items():
            if one.job.programs:  # what they have measured, however they ended
                with attributed(Origin(name)):
                    problem = one.job.programs.measure(self._inbox, self._log, deadline)
                one.failure = one.failure or problem
        have_struck = self._far_ends.end()
        self._measure_clocks()
        for one in self.struck.values():
            one.wait_for_repair(deadline)
        self.controllers.end()
        self._note_end(have_struck and self._faults.have_struck(len(self.plan.faults)))

    def _name_switches(self) -> None:
        """Say which switch is not as commanded, of a job that failed while its circuits are moved.

        Ranks know only whom they wait for: a switch that restarted keeps them waiting, unnamed.
        """
        failed = [one for one in self.struck.values() if one.failure]
        if not failed or not self.controllers.may_move_circuits:
            return
        check, limit = self.context.bench.fabric.check, Deadline.after(_READ_LIMIT)
        try:
            self._inbox.in_worker("reading the switches", check, limit)
        except (BusyError, LabError) as error:
            for one in failed:
                one.failure = f"{error}; {one.failure}"

    def _note_failures(self) -> None:
        """Write down each struck job that has failed beside others."""
        for one in self.struck.values():
            if one.failure and len(self.jobs) > 1:
                self.others.add_failure(one.job, one.failure)

    def _note_end(self, is_valid: bool) -> None:
        """Write what the trial came to; one not watched throughout is invalid."""
        self._note_failures()
        reasons = self.others.reasons or ([self.failure] if self.failure else [])
        self.pause = max(self.pause, self.context.pauses.longest())
        if self.pause:
            is_valid = False
            reasons.insert(0, f"the orchestrator itself stood still for {self.pause:.1f} s")
        for name, job in self.jobs.items():
            self._records[name].note_counts(name, job.completed)
        is_well = not self.failure and not self.others.failures
        data: dict[str, Any] = {"valid": is_valid, "recovered": is_well}
        if self.others.failures:
            data["failures"] = dict(self.others.failures)
        responses = {one.wait.response for one in self.struck.values()}
        alike = next(iter(responses)) if len(responses) == 1 else None
        data["response"] = None if self.failure else alike
        self._log.append("trial.end", self.plan.arm, **data, reason="; ".join(reasons))

    # --- the course of a trial with faults ----------------------------------------------------

    def _run_with_faults(self, plans: Sequence[FaultPlan], deadline: Deadline) -> None:
        self._baseline(plans[0], deadline)
        if self.failure:
            return
        later = struck_later(plans)
        self._note_prediction(plans, [name for name in self.jobs if name not in later])
        self._inject_all(plans, deadline)
        self._faults.end_holds(deadline)
        for one in self.struck.values():
            if any(breaks(plan.kind) or plan.hold is not None for plan in one.plans):
                one.wait_for_recovery(deadline)
            else:  # it stays until the job has ended
                one.wait_for_end(deadline)
        self._faults.confirm_and_undo()
        for record in self._records.values():
            record.let_go()
        self._await_ends(deadline)

    def _inject_all(self, plans: Sequence[FaultPlan], deadline: Deadline) -> None:
        """Inject every fault at its time, but for those of a job that cannot go on until then."""
        for plan in plans:
            struck = self.struck[plan.job]
            if struck.failure:
                continue
            if plan.after is not None:
                self._faults.pause_after_latest(plan.after, deadline)
                struck.failure = struck.wait.broken
            elif plan is not plans[0]:
                self._faults.end_holds(deadline)
                self._baseline(plan, deadline)
                if plan is struck_later(plans).get(plan.job):
                    self._note_prediction(plans, [plan.job])
            if not struck.failure and plan.after is None:
                self._inbox.pause(deadline.within(plan.phase * (struck.step_time or 0.0)))
            if not struck.failure:
                begin = self.controllers.await_fault if plan is plans[0] else _nothing
                job, responses = struck.job, struck.responses
                struck.failure = self._faults.inject(plan, job, responses, deadline, begin)

    def _await_ends(self, deadline: Deadline) -> None:
        for one in self.struck.values():
            one.wait_for_end(deadline)

    def _note_prediction(self, plans: Sequence[FaultPlan], names: Iterable[str]) -> None:
        """Write what the model expects; of several faults of one job it expects nothing."""
        for name in names:
            job = self.jobs[name]
            mine = [plan for plan in plans if plan.job == name]
            if len(mine) > 1:
                continue
            step_time = self.struck[name].step_time or 0.0 if mine else 0.0
            plan = mine[0] if mine else None
            if terms := self.predictors[name].terms(plan, job, step_time):
                with attributed(Origin(name)):
                    self._log.append("prediction", self.plan.arm, **terms)

    def _revise_prediction(self) -> None:
        """Predict again from changes of circuits that were timed meanwhile.

        Not of a job that was struck, whose prediction stands since before its fault.
        """
        struck = {plan.job for plan in self.plan.faults}
        timed = {
            name: job.changes.values()
            for name, job in self.jobs.items()
            if job.changes and name not in struck
        }
        of = self.predictors
        revised = {n: replace(of[n], links=of[n].links.with_changes(timed[n])) for n in timed}
        self.predictors = {**of, **revised}
        self._note_prediction((), timed)

    def _begin_far_end_faults(self, first: StruckJob, deadline: Deadline) -> None:
        """Let switches misbehave, each from its step on."""
        for fault in self.plan.far_end_faults:
            self._wait_for_step(first, fault.step, deadline)
            if self.failure:
                return
            self._far_ends.begin(fault, self.experiment.faults[fault.entry].options)

    def _baseline(self, plan: FaultPlan, deadline: Deadline) -> None:
        """Wait until the step of a fault is under way, and its job's pace is known."""
        self._wait_for_step(self.struck[plan.job], plan.step, deadline)

    def _wait_for_step(self, struck: StruckJob, step: int, deadline: Deadline) -> None:
        for name, job in self.jobs.items():  # the others' steps are recorded from now on
            at = struck.begun + step if job is struck.job else job.completed + NEAR
            self._records[name].note_fault(at)
        struck.wait_for_step(step, deadline)

    # --- what happens meanwhile -------------------------------------------------------------

    def _handle(self, item: Any) -> None:
        if isinstance(item, Report):
            self.jobs.record(item, self._log, self._follow, self._records)
            return
        for one in self.struck.values():
            one.handle(item)
        self.controllers.handle(item)

    def _follow(self, job: RunningJob, report: Report, event: Event | None) -> None:
        """Let all that follow a job know of a report, and do what follows from it."""
        rank, struck = job.rank_in(report), self.struck.get(job.name)
        if event and struck:
            struck.responses.handle(event)
        seen = observation(report, job)
        job.handle(report)
        if struck:
            struck.add_step(rank, report.said, report.received)
            self._faults.look_for_receipts(job.name, report, event, self._clocks)
        if seen is not None:
            self.controllers.observe(JobObserved(job.name, seen))
        if job.collective and rank is not None and event and event.kind == "step":
            self.controllers.observe(JobObserved(job.name, timed_step(event, self._clocks)))
        is_lost = isinstance(seen, AgentLost) and report.host in job.hosts
        if is_lost and not self.controllers.of(job.name).is_recoverable:
            job.failure = f"the agent of {report.host} is gone, and no policy reacts"
        self.others.note_failures()

    def _measure_clocks(self) -> None:
        measure = self.context.bench.measure_clocks
        try:
            self._inbox.in_worker("measuring the clocks", measure, Deadline.after(_CLOCK_LIMIT))
        except LabError:
            # A pause of this process voids the trial; clocks are measured all along besides.
            self.pause = max(self.pause, self.context.pauses.longest())
            if not self.pause:
                raise


def _nothing() -> None:
    """Let earlier recoveries count: a fault that is not the first may strike while one goes on."""
