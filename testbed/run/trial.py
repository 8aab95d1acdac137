"""One trial: let the job run, break something, wait until it is well again, take it back."""

from __future__ import annotations

from typing import Any

from testbed.analysis.steps import KINDS
from testbed.clock import Deadline
from testbed.control.protocol import AgentLost
from testbed.errors import LabError
from testbed.run.agent_reports import observation, record
from testbed.run.collective_chooser import CollectiveChooser
from testbed.run.context import RunContext
from testbed.run.expectation import Predict
from testbed.run.far_end_faults import FarEndFaults
from testbed.run.fault_injection import FaultInjection, find_victim, made_fault
from testbed.run.inbox import Report
from testbed.run.planning.fault_plans import breaks
from testbed.run.planning.plan import FaultPlan, RunTrial
from testbed.run.policy_executor import PolicyExecutor
from testbed.run.recovery_wait import RecoveryWait
from testbed.run.response_tracker import ResponseTracker
from testbed.run.running_job import RunningJob
from testbed.run.step_pace import StepPace
from testbed.schema import Experiment

_FAULT_LIMIT = 10.0
_CLOCK_LIMIT = 5.0


class Trial:
    """One planned trial on a running job."""

    def __init__(
        self,
        plan: RunTrial,
        experiment: Experiment,
        job: RunningJob,
        executor: PolicyExecutor | None,
        predict: Predict,
        context: RunContext,
        chooser: CollectiveChooser | None = None,
    ) -> None:
        self._plan = plan
        self._experiment = experiment
        self._job = job
        self._executor = executor
        self._predict = predict
        self._chooser = chooser
        self._context = context
        self._inbox, self._log = context.inbox, context.log
        self._pace = StepPace(len(job.hosts))
        # A job with an end was started for this trial, and may have made steps since.
        self._begun = job.completed if job.job.endless else 0
        self._far_ends = FarEndFaults(context)
        self._injection: FaultInjection | None = None
        self._clocks = context.bench.clocks.known
        self._responses = ResponseTracker(len(job.hosts), self._clocks)
        self._recovery_wait = RecoveryWait(job, executor, self._pace, self._inbox)
        self.failure = ""
        """Why the job is not well after the trial, when it is not."""
        self.pause = 0.0
        """Seconds for which this process was paused since the trial before, or the first start."""

    def run(self) -> None:
        """Run the trial; afterwards the fault is undone, and `failure` says how the job is."""
        with self._inbox.handled_by(self._handle):
            self._run(Deadline.after(self._experiment.limits.trial))

    def _run(self, deadline: Deadline) -> None:
        begun = self._log.append("trial.begin", self._plan.arm, generation=self._job.generation)
        if self._chooser:
            self._chooser.set_clocks(self._clocks)
        self._measure_clocks()
        self._responses = ResponseTracker(len(self._job.hosts), self._clocks)
        self._responses.handle(begun)
        self._begin_far_end_faults(deadline)
        if self._plan.fault is None:
            self._note_prediction(None, 0.0)
            self._await_end(deadline)
        else:
            self._disturb(self._plan.fault, deadline)
        self._read_programs(deadline)
        have_struck = self._far_ends.end()
        self._measure_clocks()
        if not self.failure:
            self.failure = self._recovery_wait.wait_for_calm(deadline)
        has_receipt = self._injection is not None and bool(self._injection.receipt)
        self._note_end(have_struck and (self._plan.fault is None or has_receipt))

    def _note_end(self, is_valid: bool) -> None:
        """Write what the trial came to; one not watched throughout is invalid."""
        reasons = [self.failure] if self.failure else []
        self.pause = max(self.pause, self._context.pauses.longest())
        if self.pause:
            is_valid = False
            reasons.insert(0, f"the orchestrator itself stood still for {self.pause:.1f} s")
        well, why = not self.failure, "; ".join(reasons)
        response = self._recovery_wait.response if well else None
        data: dict[str, Any] = {"recovered": well, "response": response, "reason": why}
        self._log.append("trial.end", self._plan.arm, valid=is_valid, **data)

    # --- the course of a trial with a fault -------------------------------------------------

    def _disturb(self, plan: FaultPlan, deadline: Deadline) -> None:
        step_time = self._baseline(plan.step, deadline)
        if self.failure:
            return
        self._note_prediction(plan, step_time)
        fault = made_fault(self._experiment)
        self._inbox.pause(deadline.within(plan.phase * step_time))
        victim = find_victim(plan, self._job, self._context)
        if victim is None:
            host = plan.port.partition(".")[0]
            self.failure = f"the job has moved away from {host}, whose port was to be hit"
            return
        injection = FaultInjection(plan, fault, victim, self._context, self._responses)
        # From here on, and no earlier: what is noticed and repaired counts as this fault's doing.
        self._injection = injection
        if self._executor:
            self._executor.await_fault()
        injection.inject(deadline.within(_FAULT_LIMIT))
        if plan.hold is not None:
            self._inbox.pause(deadline.within(plan.hold))
            injection.take_back()
        if breaks(plan.kind) or plan.hold is not None:
            self._await_recovery(plan, step_time, deadline)
        else:  # it stays until the job has ended
            self._await_end_of_job(deadline)
        injection.await_receipt()
        if plan.hold is None:
            injection.take_back()
        self._await_end_of_job(deadline)

    def _await_recovery(self, plan: FaultPlan, step_time: float, deadline: Deadline) -> None:
        limit, wait = self._experiment.limits.trial, self._recovery_wait
        self.failure = wait.wait(plan, self._responses, limit, deadline)
        if not self.failure and wait.response == "recovered":
            self.failure = wait.wait_for_throughput(step_time, deadline)

    def _await_end_of_job(self, deadline: Deadline) -> None:
        if not self.failure and not self._job.job.endless:
            self._await_end(deadline)

    def _note_prediction(self, plan: FaultPlan | None, step_time: float) -> None:
        if terms := self._predict(plan, self._job, step_time):
            self._log.append("prediction", self._plan.arm, **terms)

    def _begin_far_end_faults(self, deadline: Deadline) -> None:
        """Let switches misbehave, each from its step on."""
        for fault in self._plan.far_end_faults:
            self._baseline(fault.step, deadline)
            if self.failure:
                return
            self._far_ends.begin(fault, self._experiment.faults[fault.entry].options)

    def _baseline(self, step: int, deadline: Deadline) -> float:
        """Wait until a step of the trial is under way; return the median time of those so far."""
        job, target = self._job, self._begun + step

        def there() -> bool:
            return job.completed >= target or job.has_ended or bool(self._recovery_wait.broken)

        if not self._inbox.wait(there, deadline):
            limit = self._experiment.limits.trial
            self.failure = f"the job did not reach step {target} within the trial's {limit:g} s"
        elif job.completed < target:
            self.failure = self._recovery_wait.broken or f"the job ended before step {target}"
        else:
            self.failure = self._recovery_wait.broken
        return self._pace.step_time(job.generation)

    def _await_end(self, deadline: Deadline) -> None:
        job, wait = self._job, self._recovery_wait
        if self._inbox.wait(lambda: job.has_ended or bool(wait.broken), deadline):
            self.failure = wait.broken
        else:
            self.failure = f"the job did not end within {self._experiment.limits.trial:g} s"

    def _read_programs(self, deadline: Deadline) -> None:
        """Write down what the programs of the job have measured, however they ended."""
        if self._job.programs:
            problem = self._job.programs.measure(self._inbox, self._log, deadline)
            self.failure = self.failure or problem

    # --- what happens meanwhile -------------------------------------------------------------

    def _handle(self, item: Any) -> None:
        if isinstance(item, Report):
            self._handle_report(item)
        elif self._executor:
            self._executor.observe(item)

    def _handle_report(self, report: Report) -> None:
        rank = self._job.rank_of(report.host)
        event = record(report, rank, self._log)
        if event:
            self._responses.handle(event)
        if self._chooser and event and event.kind == "step":
            self._chooser.add_step(event)
        seen = observation(report, self._job)
        self._job.handle(report)
        said = report.message.get("said", {})
        if rank is not None and said.get("event") in KINDS:
            self._pace.add_step(rank, said, report.received)
        if self._injection:
            self._injection.look_for_receipt(report, event, self._clocks)
        if self._executor and seen is not None:
            self._executor.observe(seen)
        elif isinstance(seen, AgentLost) and rank is not None:
            self._job.failure = f"the agent of {report.host} is gone, and no policy reacts"

    def _measure_clocks(self) -> None:
        measure = self._context.bench.measure_clocks
        try:
            self._inbox.in_worker("measuring the clocks", measure, Deadline.after(_CLOCK_LIMIT))
        except LabError:
            # A pause of this process voids the trial; clocks are measured all along besides.
            self.pause = max(self.pause, self._context.pauses.longest())
            if not self.pause:
                raise
