"""The faults of one trial: injected, confirmed by an observer, and undone.

The fault of the job hits a victim. Faults of far ends are simulated in the twin, so they do not
exist on hardware and need no permission of the lab; each is proved by the far end's count of how
often it took effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeVar

from testbed.analysis.clocks import Clocks
from testbed.clock import Deadline, now
from testbed.errors import UsageError
from testbed.events import Event
from testbed.events.origin import NOWHERE, Origin, attributed
from testbed.fabric.circuits import HostPort
from testbed.faults.contracts import Fault, Injected, Undo, Victim
from testbed.plugins import kind
from testbed.run.context import RunContext
from testbed.run.inbox import Report
from testbed.run.planning.fault_plans import JOB_FAULT, breaks
from testbed.run.planning.steps import FarEndFault, FaultPlan
from testbed.run.response_tracker import ResponseTracker
from testbed.run.running_job import RunningJob
from testbed.run.twin_control import TwinControl
from testbed.schema import Experiment

_UNDO_LIMIT = 15.0
_RECEIPT_LIMIT = 1.0
_FAR_END_LIMIT = 10.0

_T = TypeVar("_T")


def made_fault(experiment: Experiment, number: int = JOB_FAULT) -> Fault:
    """Return a fault of an experiment's job, created from its options."""
    entry = experiment.faults[number]
    fault: Fault = kind("faults", entry.kind).load()(entry.options)
    return fault


def _arrival(event: Event) -> float | None:
    """Return when a rank came to the collective of all ranks that it reports, by its own clock."""
    if event.kind == "step":
        at: float = event.data["collective"][0]
        return at
    return event.data["begin"] if event.kind == "sample" and "dimension" not in event.data else None


def find_victim(plan: FaultPlan, job: RunningJob, context: RunContext) -> Victim | None:
    """Return the victim: the host that runs the rank now, or the rank at the given port.

    Of a job that goes on with fewer ranks, it is counted on from rank 0. None where the job has no
    rank at the port any more.
    """
    circuits = context.bench.fabric.circuits
    if not plan.port:
        rank = plan.rank % len(job.places)
        host, slot = job.places[rank]
        to_next = job.ring_ports_of(host).to_next
        return Victim(rank, host, slot, circuits, to_next=to_next)
    host = HostPort.parse(plan.port).host
    for rank in job.members.ranks_on(host):
        return Victim(rank, *job.places[rank], circuits, plan.port)
    return None


@dataclass(eq=False)
class FaultInjection:
    """A fault and its victim; the undo is journalled at construction, before the injection."""

    plan: FaultPlan
    fault: Fault
    victim: Victim
    context: RunContext
    responses: ResponseTracker
    options: Mapping[str, Any] = field(default_factory=dict)
    receipt: str = ""
    """The observer that has seen the fault, besides the injector."""
    origin: Origin = NOWHERE
    """Of what is written about the fault; its cause is the injection once that is over."""

    def __post_init__(self) -> None:
        """Write the undo into the journal and the clean-up."""
        fault, victim, context = self.fault, self.victim, self.context
        self._log = context.log
        undo = partial(fault.undo, context.bench, victim)
        entry = fault.undo_entry(context.bench, victim)
        what = f"{self.plan.kind} of {victim.host}"
        self._undo = context.push_undo(what, undo, _UNDO_LIMIT, entry)

    def inject(self, deadline: Deadline) -> None:
        """Inject the fault, and log the interval in which it took effect."""
        victim, bench = self.victim, self.context.bench

        def inject(deadline: Deadline) -> Injected:
            bench.guard.fault(self.plan.kind, victim.host)
            return self.fault.inject(bench, victim, deadline)

        what = f"injecting into {victim.host}"
        injected = self.context.inbox.in_worker(what, inject, deadline)
        stamps = self._stamps(injected)
        event = self._append("fault.inject", victim.host, rank=victim.rank, **stamps)
        self.origin = Origin(cause=event.seq).over(self.origin)
        if injected.witness and not self.receipt:
            self.receipt = injected.witness
            when: dict[str, Any] = {}
            if injected.seen is not None:
                when = {"host": injected.clock, "mono": injected.seen}
            self._append("fault.receipt", injected.witness, **when)

    def take_back(self) -> None:
        """Undo the fault, verify that, and log the interval in which it ended."""
        sent = now()
        self.context.cleanup.run_now(self._undo)
        interval = {"sent": self._log.at(sent), "done": self._log.at(now())}
        self._append("fault.undo", self.victim.host, fault=self.plan.kind, **interval)

    def look_for_receipt(self, report: Report, event: Event | None, clocks: Clocks) -> None:
        """Check whether an agent's report confirms the fault, unless it is confirmed already."""
        if self.receipt:
            return
        message = dict(report.message)
        if event and (at := _arrival(event)) is not None:
            arrived = clocks.instant(event, at)
            message |= {"arrived": arrived.middle} if arrived else {}
        self.receipt = self.fault.receipt(self.victim, report.host, message)
        if self.receipt:
            where = {"host": report.host, "mono": (report.said or report.message)["mono"]}
            self._append("fault.receipt", self.receipt, report.received, **where)

    def await_receipt(self, *, lasts: bool) -> None:
        """Wait briefly for an observer to confirm the fault; log if none does.

        While the fault `lasts`, what no agent has reported is looked for.
        """
        inbox = self.context.inbox
        if inbox.wait(lambda: bool(self.receipt), Deadline.after(_RECEIPT_LIMIT)):
            return
        if lasts:
            find = partial(self.fault.find_witness, self.context.bench, self.victim)
            limit = Deadline.after(_RECEIPT_LIMIT)
            self.receipt = inbox.in_worker("looking for a witness", find, limit)
        if self.receipt:
            self._append("fault.receipt", self.receipt)
        else:
            self._log.append("note", "receipt", text="no observer but the injector saw the fault")

    def _append(self, kind_: str, subject: str, at: float | None = None, **data: Any) -> Event:
        """Write down what happened to the fault; it counts for what the job does then."""
        with attributed(self.origin):
            event = self._log.append(kind_, subject, at=at, **data)
        self.responses.handle(event)
        return event

    def _stamps(self, injected: Injected) -> dict[str, Any]:
        name = self.plan.kind
        data: dict[str, Any] = {"fault": name, "note": injected.note, "breaks": breaks(name)}
        data |= {"held": self.plan.hold is not None, "entry": self.plan.entry}
        data |= {"options": self.options}
        if injected.clock:
            return data | {"host": injected.clock, "mono": [injected.sent, injected.done]}
        return data | {"sent": self._log.at(injected.sent), "done": self._log.at(injected.done)}


# --- faults of far ends: a switch that misbehaves while something else breaks ------------------


class FarEndFaults:
    """The far-end faults of one trial; `begin` each, then `end` them all."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._ends: list[Callable[[], bool]] = []
        """What ends each fault that was begun, and tells whether it has struck."""

    @property
    def _twin(self) -> TwinControl:
        if self._context.twin is None:
            raise UsageError("switch-* faults require a twin", hint="run it with --twin")
        return self._context.twin

    def begin(self, fault: FarEndFault, options: Any) -> None:
        """Start a fault of a far end, after journalling its undo."""
        twin, context = self._twin, self._context
        switch, name, scope = fault.switch, kind("faults", fault.kind).far_end, asdict(options)
        check = partial(context.bench.guard.check, switch, ())

        def begin() -> None:
            check()
            twin.fault(switch, name, scope)

        def undo(_: Deadline) -> None:
            check()
            twin.clear(switch, name)

        def end() -> bool:
            count = self._asked(partial(twin.struck, switch, name)) - before
            context.cleanup.run_now(step)
            with attributed(origin):
                context.log.append("far-end.clear", switch, fault=fault.kind, struck=count)
            return count > 0

        origin = NOWHERE
        self._asked(check)
        before = self._asked(partial(twin.struck, switch, name))
        entry = Undo("far-end-fault", {"switch": switch, "fault": name})
        step = context.push_undo(f"{fault.kind} of {switch}", undo, _FAR_END_LIMIT, entry)
        self._ends.append(end)
        self._asked(begin)
        begun = context.log.append("far-end.fault", switch, fault=fault.kind, scope=scope)
        origin = Origin(cause=begun.seq)

    def end(self) -> bool:
        """End all of them, last first; return whether each has taken effect."""
        have_struck = True
        while self._ends:
            have_struck = self._ends.pop()() and have_struck
        return have_struck

    def _asked(self, question: Callable[[], _T]) -> _T:
        limit = Deadline.after(_FAR_END_LIMIT)
        return self._context.inbox.in_worker("asking the twin", lambda _: question(), limit)
