"""One trial: run the job, inject a fault, wait for the recovery, undo the fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from testbed.analysis.steps import KINDS
from testbed.clock import Deadline
from testbed.control.controller import JobObserved, MembershipChanged
from testbed.control.protocol import AgentLost
from testbed.errors import LabError
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
from testbed.run.planning.fault_plans import breaks, struck_job
from testbed.run.planning.steps import FaultPlan, RunTrial
from testbed.run.recovery_wait import RecoveryWait
from testbed.run.response_tracker import ResponseTracker
from testbed.run.running_job import RunningJob
from testbed.run.running_jobs import RunningJobs
from testbed.run.step_pace import StepPace
from testbed.run.step_record import NEAR, StepRecord
from testbed.schema import Experiment

_CLOCK_LIMIT = 5.0


@dataclass(eq=False)
class Trial:
    """One planned trial on running jobs; `job` is the one that its faults strike."""

    plan: RunTrial
    experiment: Experiment
    jobs: RunningJobs
    controllers: ControllerExecutor
    predictors: Mapping[str, Predictor]
    context: RunContext
    failure: str = ""
    """Why the job cannot go on after the trial, when it cannot."""
    pause: float = 0.0
    """Seconds for which this process was paused since the trial before, or the first start."""

    def __post_init__(self) -> None:
        """Note where the job is now."""
        context = self.context
        self.job = job = self.jobs[struck_job(self.experiment)]
        self._inbox, self._log = context.inbox, context.log
        others = [one for one in self.jobs.values() if one is not job]
        self.others = OtherJobs(others, self.controllers, context.inbox, context.log)
        self._pace = StepPace(len(job.hosts))
        # A job with an end was started for this trial, and may have made steps since.
        self._begun = job.completed if job.job.endless else 0
        self._far_ends = FarEndFaults(context)
        self._faults = JobFaults(self.experiment, job, context)
        self._clocks = context.bench.clocks.known
        self._responses = ResponseTracker(len(job.hosts), self._clocks)
        self._limit = self.experiment.limits.trial
        every = self.experiment.record.steps
        self._records = {
            name: StepRecord(self._log, every, one.job.last_step) for name, one in self.jobs.items()
        }
        self._wait = RecoveryWait(job, self.controllers, self._pace, self._inbox, self._limit)

    def run(self) -> None:
        """Run the trial and undo its fault; `failure` is then the job's error, if any."""
        with self._inbox.handled_by(self._handle):
            try:
                self._run(Deadline.after(self._limit))
            finally:
                self.controllers.stop()

    def _run(self, deadline: Deadline) -> None:
        several: dict[str, Any] = {"jobs": list(self.jobs)} if len(self.jobs) > 1 else {}
        begun = self._log.append(
            "trial.begin", self.plan.arm, generation=self.job.generation, **several
        )
        self._measure_clocks()
        self._responses = ResponseTracker(len(self.job.hosts), self._clocks)
        self._responses.handle(begun)
        self.controllers.begin()
        self._begin_far_end_faults(deadline)
        if not self.plan.faults:
            self._note_prediction((), 0.0)
            self._await_end_of_job(deadline)
            self._revise_prediction()
        else:
            self._run_with_faults(self.plan.faults, deadline)
        if self.failure and len(self.jobs) > 1:
            self.others.add_failure(self.job, self.failure)
        self.others.wait_for_ends(deadline, self._limit)
        self.others.measure(deadline)
        if self.job.programs:  # what they have measured, however they ended
            with attributed(Origin(self.job.name)):
                problem = self.job.programs.measure(self._inbox, self._log, deadline)
            self.failure = self.failure or problem
        have_struck = self._far_ends.end()
        self._measure_clocks()
        if not self.failure:
            self.failure = self._wait.wait_for_repair(deadline)
        self.controllers.end()
        self._note_end(have_struck and self._faults.have_struck(len(self.plan.faults)))

    def _note_end(self, is_valid: bool) -> None:
        """Write what the trial came to; one not watched throughout is invalid."""
        if self.failure and len(self.jobs) > 1:
            self.others.add_failure(self.job, self.failure)
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
        data["response"] = None if self.failure else self._wait.response
        self._log.append("trial.end", self.plan.arm, **data, reason="; ".join(reasons))

    # --- the course of a trial with faults ----------------------------------------------------

    def _run_with_faults(self, plans: Sequence[FaultPlan], deadline: Deadline) -> None:
        step_time = self._baseline(plans[0].step, deadline)
        if self.failure:
            return
        self._note_prediction(plans, step_time)
        self._inject_all(plans, step_time, deadline)
        self._faults.end_holds(deadline)
        if not self.failure and any(breaks(one.kind) or one.hold is not None for one in plans):
            self._await_recovery(plans, step_time, deadline)
        else:  # it stays until the job has ended
            self._await_end_of_job(deadline)
        self._faults.confirm_and_undo()
        for record in self._records.values():
            record.let_go()
        self._await_end_of_job(deadline)

    def _inject_all(self, plans: Sequence[FaultPlan], step_time: float, deadline: Deadline) -> None:
        """Inject every fault at its time, or stop where the job cannot go on until then."""
        for plan in plans:
            if plan.after is not None:
                self._faults.pause_after_latest(plan.after, deadline)
                self.failure = self._wait.broken
            elif plan is not plans[0]:
                self._faults.end_holds(deadline)
                self._baseline(plan.step, deadline)
            if not self.failure and plan.after is None:
                self._inbox.pause(deadline.within(plan.phase * step_time))
            if not self.failure:
                begin = self.controllers.await_fault if plan is plans[0] else _nothing
                self.failure = self._faults.inject(plan, self._responses, deadline, begin)
            if self.failure:
                return

    def _await_recovery(
        self, plans: Sequence[FaultPlan], step_time: float, deadline: Deadline
    ) -> None:
        self.failure = self._wait.wait(plans, self._responses, deadline)
        if not self.failure and self._wait.response == "recovered":
            self.failure = self._wait.wait_for_throughput(step_time, deadline)

    def _await_end_of_job(self, deadline: Deadline) -> None:
        if not self.failure and not self.job.job.endless:
            self.failure = self._wait.wait_for_end(deadline)

    def _note_prediction(self, plans: Sequence[FaultPlan], step_time: float) -> None:
        """Write what the model expects; of several faults in one trial it expects nothing."""
        for name, job in self.jobs.items():
            if job is self.job and len(plans) > 1:
                continue
            plan = plans[0] if plans else None
            mine = (plan, job, step_time) if job is self.job else (None, job, 0.0)
            if terms := self.predictors[name].terms(*mine):
                with attributed(Origin(name)):
                    self._log.append("prediction", self.plan.arm, **terms)

    def _revise_prediction(self) -> None:
        """Predict again from the changes of circuits that were timed between iterations."""
        timed = {name: job.changes.values() for name, job in self.jobs.items() if job.changes}
        if timed:
            self.predictors = {
                name: replace(one, links=one.links.with_changes(timed.get(name, ())))
                for name, one in self.predictors.items()
            }
            self._note_prediction((), 0.0)

    def _begin_far_end_faults(self, deadline: Deadline) -> None:
        """Let switches misbehave, each from its step on."""
        for fault in self.plan.far_end_faults:
            self._baseline(fault.step, deadline)
            if self.failure:
                return
            self._far_ends.begin(fault, self.experiment.faults[fault.entry].options)

    def _baseline(self, step: int, deadline: Deadline) -> float:
        """Wait until a step of the trial is under way; return the median time of those so far."""
        for name, job in self.jobs.items():  # the others' steps are recorded from now on
            at = self._begun + step if job is self.job else job.completed + NEAR
            self._records[name].note_fault(at)
        self.failure = self._wait.wait_for_step(self._begun + step, deadline)
        return self._pace.step_time(self.job.generation)

    # --- what happens meanwhile -------------------------------------------------------------

    def _handle(self, item: Any) -> None:
        if isinstance(item, Report):
            self.jobs.record(item, self._log, self._follow, self._records)
            return
        if isinstance(item, MembershipChanged) and item.job == self.job.name:
            for follower in (self._pace, self._responses):
                follower.expect(item.view.generation, len(item.view.hosts))
        self.controllers.handle(item)

    def _follow(self, job: RunningJob, report: Report, event: Event | None) -> None:
        """Let all that follow a job know of a report, and do what follows from it."""
        rank = job.rank_in(report)
        if event and job is self.job:
            self._responses.handle(event)
        seen = observation(report, job)
        job.handle(report)
        if job is self.job:
            if rank is not None and report.said.get("event") in KINDS:
                self._pace.add_step(rank, report.said, report.received)
            self._faults.look_for_receipts(report, event, self._clocks)
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
