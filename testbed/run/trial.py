"""One trial: let the job run, break something, wait until it is well again, take it back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.analysis.steps import KINDS
from testbed.bench.bench import Bench
from testbed.clock import Deadline, now
from testbed.control.protocol import AgentLost
from testbed.errors import LabError
from testbed.events import Event
from testbed.fabric.circuits import HostPort
from testbed.faults.contracts import Fault, Injected, Victim
from testbed.plugins import kind
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.run.agent_reports import observation, record
from testbed.run.cleanup import Cleanup, CleanupStep
from testbed.run.collective_chooser import CollectiveChooser
from testbed.run.far_end_faults import FarEndControl, FarEndFaults
from testbed.run.inbox import Inbox, Report
from testbed.run.pause_detector import PauseDetector
from testbed.run.planning.fault_plans import breaks
from testbed.run.planning.plan import FaultPlan, RunTrial
from testbed.run.policy_executor import Recovery
from testbed.run.recovery_wait import RecoveryWait
from testbed.run.response_tracker import ResponseTracker
from testbed.run.running_job import SLOT, RunningJob
from testbed.run.step_pace import StepPace
from testbed.schema import Experiment

Predict = Callable[[FaultPlan | None, RunningJob, float], Mapping[str, Any]]
"""Return what the model expects, given the median time of a step: the terms of the recovery time,
or `values` by metric; nothing where it expects nothing."""

_FAULT_LIMIT = 10.0
_CLOCK_LIMIT = 5.0
_UNDO_LIMIT = 15.0
_RECEIPT_LIMIT = 1.0


@dataclass(frozen=True, slots=True)
class RunContext:
    """What every trial of a run works with."""

    bench: Bench
    inbox: Inbox
    journal: Journal
    log: EventLog
    cleanup: Cleanup
    pauses: PauseDetector
    far_ends: FarEndControl | None = None
    """None on hardware."""


class Trial:
    """One planned trial on a running job."""

    def __init__(
        self,
        plan: RunTrial,
        experiment: Experiment,
        job: RunningJob,
        recovery: Recovery | None,
        predict: Predict,
        context: RunContext,
        chooser: CollectiveChooser | None = None,
    ) -> None:
        self._plan = plan
        self._experiment = experiment
        self._job = job
        self._recovery = recovery
        self._predict = predict
        self._chooser = chooser
        self._context = context
        self._inbox, self._log = context.inbox, context.log
        self._pace = StepPace(len(job.hosts))
        # A job with an end was started for this trial, and may have made steps since.
        self._begun = job.completed if job.job.endless else 0
        self._far_ends = FarEndFaults(context)
        self._fault: Fault | None = None
        self._victim: Victim | None = None
        self._receipt = ""
        self._clocks = context.bench.clocks.known
        self._responses = ResponseTracker(len(job.hosts), self._clocks)
        self._recovery_wait = RecoveryWait(job, recovery, self._pace, self._inbox)
        self.failure = ""
        """Why the job is not well after the trial, when it is not."""
        self.pause = 0.0
        """Seconds for which this process stood still since the trial before, or the first start."""

    def run(self) -> None:
        """Run the trial; afterwards the fault is undone, and `failure` says how the job is."""
        deadline = Deadline.after(self._experiment.limits.trial)
        self._inbox.handler = self._hear
        begun = self._log.append("trial.begin", self._plan.arm, generation=self._job.generation)
        if self._chooser:
            self._chooser.set_clocks(self._clocks)
        self._measure_clocks()
        self._responses = ResponseTracker(len(self._job.hosts), self._clocks)
        self._responses.hear(begun)
        self._upset_far_ends(deadline)
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
        self._note_end(have_struck and (self._plan.fault is None or bool(self._receipt)))

    def _note_end(self, is_valid: bool) -> None:
        """Write what the trial came to; one not watched throughout is none."""
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
        fault: Fault = kind("faults", plan.kind).load()(self._experiment.faults[0].options)
        self._inbox.pause(deadline.within(plan.phase * step_time))
        victim = self._aimed(plan)
        if victim is None:
            return
        undo = self._promise_undo(plan.kind, fault, victim)
        self._inject(fault, victim, deadline.within(_FAULT_LIMIT))
        if plan.hold is not None:
            self._inbox.pause(deadline.within(plan.hold))
            self._take_back(undo, victim)
        if breaks(plan.kind) or plan.hold is not None:
            limit = self._experiment.limits.trial
            self.failure = self._recovery_wait.wait(plan, self._responses, limit, deadline)
            if not self.failure and self._recovery_wait.response == "recovered":
                self.failure = self._recovery_wait.wait_for_throughput(step_time, deadline)
        else:  # it stays until the job has ended
            self._await_end_of_job(deadline)
        self._await_receipt()
        if plan.hold is None:
            self._take_back(undo, victim)
        self._await_end_of_job(deadline)

    def _take_back(self, undo: CleanupStep, victim: Victim) -> None:
        """End the fault and verify it; the record has the interval in which it ended."""
        assert self._plan.fault is not None
        sent = now()
        self._context.cleanup.run_now(undo)
        interval = {"sent": self._log.at(sent), "done": self._log.at(now())}
        undone = self._log.append(
            "fault.undo", victim.host, fault=self._plan.fault.kind, **interval
        )
        self._responses.hear(undone)

    def _await_end_of_job(self, deadline: Deadline) -> None:
        if not self.failure and not self._job.job.endless:
            self._await_end(deadline)

    def _note_prediction(self, plan: FaultPlan | None, step_time: float) -> None:
        if terms := self._predict(plan, self._job, step_time):
            self._log.append("prediction", self._plan.arm, **terms)

    def _aimed(self, plan: FaultPlan) -> Victim | None:
        """Return who is hit: whoever has the rank now, or the rank that is now at the port."""
        circuits = self._context.bench.fabric.circuits
        if not plan.port:
            return Victim(plan.rank, self._job.hosts[plan.rank], SLOT, circuits)
        host = HostPort.parse(plan.port).host
        rank = self._job.rank_of(host)
        if rank is None:
            self.failure = f"the job has moved away from {host}, whose port was to be hit"
            return None
        return Victim(rank, host, SLOT, circuits, plan.port)

    def _upset_far_ends(self, deadline: Deadline) -> None:
        """Let switches misbehave, each from its step on."""
        for fault in self._plan.far_end_faults:
            self._baseline(fault.step, deadline)
            if self.failure:
                return
            self._far_ends.begin(fault, self._experiment.faults[fault.entry].options)

    def _baseline(self, step: int, deadline: Deadline) -> float:
        """Wait until a step of the trial is under way; return the median time of those so far."""
        target = self._begun + step

        def there() -> bool:
            job = self._job
            return job.completed >= target or job.has_ended or bool(self._recovery_wait.broken)

        if not self._inbox.wait(there, deadline):
            limit = self._experiment.limits.trial
            self.failure = f"the job did not reach step {target} within the trial's {limit:g} s"
        elif self._job.completed < target:
            self.failure = self._recovery_wait.broken or f"the job ended before step {target}"
        else:
            self.failure = self._recovery_wait.broken
        return self._pace.step_time(self._job.generation)

    def _promise_undo(self, name: str, fault: Fault, victim: Victim) -> CleanupStep:
        bench, journal = self._context.bench, self._context.journal
        undo = fault.promise(bench, victim)
        entry = journal.promise(undo.kind, **undo.arguments) if undo else None

        def take_back(limit: Deadline) -> None:
            fault.undo(bench, victim, limit)
            if entry is not None:
                journal.settle(entry)

        return self._context.cleanup.push(f"{name} of {victim.host}", take_back, _UNDO_LIMIT)

    def _inject(self, fault: Fault, victim: Victim, deadline: Deadline) -> None:
        # From here on, and no earlier: what is noticed and repaired counts as this fault's doing.
        self._fault, self._victim = fault, victim
        if self._recovery:
            self._recovery.await_fault()
        assert self._plan.fault is not None
        kind_, bench = self._plan.fault.kind, self._context.bench

        def inject() -> Injected:
            bench.guard.fault(kind_, victim.host)
            return fault.inject(bench, victim, deadline)

        future = self._inbox.submit(inject)
        injected = self._inbox.result(future, deadline, f"injecting into {victim.host}")
        stamps = self._stamps(injected)
        event = self._log.append("fault.inject", victim.host, rank=victim.rank, **stamps)
        self._responses.hear(event)
        if injected.witness and not self._receipt:
            self._receipt = injected.witness
            when: dict[str, Any] = {}
            if injected.seen is not None:
                when = {"host": injected.clock, "mono": injected.seen}
            self._responses.hear(self._log.append("fault.receipt", injected.witness, **when))

    def _stamps(self, injected: Injected) -> dict[str, Any]:
        assert self._plan.fault is not None
        name = self._plan.fault.kind
        data: dict[str, Any] = {"fault": name, "note": injected.note, "breaks": breaks(name)}
        data["held"] = self._plan.fault.hold is not None
        if injected.clock:
            return data | {"host": injected.clock, "mono": [injected.sent, injected.done]}
        return data | {"sent": self._log.at(injected.sent), "done": self._log.at(injected.done)}

    def _await_receipt(self) -> None:
        if not self._inbox.wait(lambda: bool(self._receipt), Deadline.after(_RECEIPT_LIMIT)):
            self._log.append("note", "receipt", text="nobody but the injector saw the fault")

    def _await_end(self, deadline: Deadline) -> None:
        job = self._job
        if not self._inbox.wait(
            lambda: job.has_ended or bool(self._recovery_wait.broken), deadline
        ):
            self.failure = f"the job did not end within {self._experiment.limits.trial:g} s"
        else:
            self.failure = self._recovery_wait.broken

    def _read_programs(self, deadline: Deadline) -> None:
        """Write down what the programs of the job have measured, however they ended."""
        if self._job.programs:
            problem = self._job.programs.measure(self._inbox, self._log, deadline)
            self.failure = self.failure or problem

    # --- what happens meanwhile -------------------------------------------------------------

    def _hear(self, item: Any) -> None:
        if isinstance(item, Report):
            self._hear_report(item)
        elif self._recovery:
            self._recovery.observe(item)

    def _hear_report(self, report: Report) -> None:
        rank = self._job.rank_of(report.host)
        event = record(report, rank, self._log)
        if event:
            self._responses.hear(event)
        if self._chooser and event and event.kind == "step":
            self._chooser.hear(event)
        seen = observation(report, self._job)
        self._job.hear(report)
        said = report.message.get("said", {})
        if rank is not None and said.get("event") in KINDS:
            self._pace.hear(rank, said, report.received)
        if self._fault and self._victim and not self._receipt:
            self._look_for_receipt(self._fault, self._victim, report, event)
        if self._recovery and seen is not None:
            self._recovery.observe(seen)
        elif isinstance(seen, AgentLost) and rank is not None:
            self._job.failure = f"the agent of {report.host} is gone, and no policy reacts"

    def _look_for_receipt(
        self, fault: Fault, victim: Victim, report: Report, event: Event | None
    ) -> None:
        message = dict(report.message)
        if event and event.kind == "step":
            arrived = self._clocks.instant(event, event.data["collective"][0])
            message |= {"arrived": arrived.middle} if arrived else {}
        self._receipt = fault.receipt(victim, report.host, message)
        if self._receipt:
            mono = report.message.get("said", report.message)["mono"]
            data = {"host": report.host, "mono": mono}
            seen = self._log.append("fault.receipt", self._receipt, at=report.received, **data)
            self._responses.hear(seen)

    def _measure_clocks(self) -> None:
        deadline = Deadline.after(_CLOCK_LIMIT)
        measured = self._inbox.submit(lambda: self._context.bench.measure_clocks(deadline))
        try:
            self._inbox.result(measured, deadline, "measuring the clocks")
        except LabError:
            # A pause of this process voids the trial; clocks are measured all along besides.
            self.pause = max(self.pause, self._context.pauses.longest())
            if not self.pause:
                raise
