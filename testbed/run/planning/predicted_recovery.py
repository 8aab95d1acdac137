"""Predict the course of a recovery: run its controller on the observations that are expected. Pure.

Every command is expected to succeed at once. What a run does otherwise follows from an observation
that came otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from testbed.control import protocol
from testbed.control.controller import (
    ChangeCircuits,
    CircuitsChanged,
    Command,
    CommandJob,
    Controller,
    JobObserved,
    JobView,
    MembershipChanged,
    Observation,
    View,
)
from testbed.fabric.circuits import HostPort, Matching, in_order
from testbed.plugins import kind
from testbed.run.planning.steps import (
    FaultPlan,
    PredictedDecision,
    PredictedFence,
    PredictedRecovery,
)

_MOST = 10_000
"""Observations after which a course is given up: its controller never rests."""


@dataclass(frozen=True, slots=True)
class ExpectedFault:
    """A drawn fault of a job: what it does to the hosts of the ranks, and to their circuits."""

    job: str
    plan: FaultPlan
    to_next: str
    """The port of the victim to the next rank."""

    def symptoms(self, view: View, heartbeat: float) -> Iterator[protocol.Observation]:
        """Yield what agents are expected to report; nothing where no controller should act."""
        plan, known = self.plan, kind("faults", self.plan.kind)
        rides_out = plan.hold is not None and known.fault.symptom == "silence"
        if known.role == "slows" or known.fault.repair == "undo":
            return
        if rides_out and (plan.hold or 0.0) < heartbeat:
            return
        host = view.jobs[self.job].hosts[plan.rank]
        match known.fault.symptom:
            case "exit":
                yield protocol.RankEnded(plan.rank, -9)
            case "silence":
                yield protocol.HeartbeatMissed(plan.rank)
            case "light" if view.jobs[self.job].groups:
                yield from map(protocol.CarrierLost, self._beside(view.jobs[self.job]))
            case "light":
                yield from map(protocol.CarrierLost, self._dark(host, view.circuits))

    def _dark(self, host: str, circuits: Matching) -> list[HostPort]:
        """Return the ports that lose their light, of hosts that can still say so."""
        own = [circuit for circuit in circuits if host in circuit.hosts]
        if kind("faults", self.plan.kind).fault.hits == "circuit":
            return sorted(
                end for one in own if HostPort(host, self.to_next) in one.ends for end in one.ends
            )
        is_alive = kind("faults", self.plan.kind).fault.repair == "circuit"
        return sorted(end for one in own for end in one.ends if is_alive or end.host != host)

    def _beside(self, job: JobView) -> list[HostPort]:
        """Return a port that is joined with one of the host, by a circuit that rails have made."""
        there = {rank for rank, host in enumerate(job.hosts) if host == job.hosts[self.plan.rank]}
        near = (r for ranks in job.groups.values() if there & {*ranks} for r in ranks)
        return [job.ports[rank][0] for rank in near if rank not in there][:1]

    def kills(self, view: View) -> frozenset[str]:
        """Return the hosts that answer no probe any more."""
        known = kind("faults", self.plan.kind).fault
        is_host = known.hits == "rank" and known.symptom == "light" and known.repair == "spare"
        return frozenset({view.jobs[self.job].hosts[self.plan.rank]} if is_host else ())


@dataclass(slots=True)
class _Course:
    """A recovery as it goes on: what is to be observed next, and what was commanded so far."""

    job: str
    view: View
    outlets: frozenset[str]
    """The hosts whose outlet can be read."""
    circuits: list[Matching]
    dead: frozenset[str] = frozenset()
    """The hosts that answer no probe any more."""
    decisions: list[PredictedDecision] = field(default_factory=list)
    fences: list[PredictedFence] = field(default_factory=list)
    due: deque[Observation] = field(default_factory=deque)

    def strike(self, fault: ExpectedFault, heartbeat: float) -> None:
        """Expect the reports that a fault leads to, where the job is now."""
        view = replace(self.view, circuits=self.circuits[-1])
        self.dead |= fault.kills(view)
        self.due += (JobObserved(self.job, one) for one in fault.symptoms(view, heartbeat))

    def carry_out(self, command: Command) -> None:
        """Note a command, and expect what comes of it."""
        match command:
            case ChangeCircuits(remove, add):
                self.circuits.append((self.circuits[-1] - remove) | add)
                self.due.append(CircuitsChanged())
            case CommandJob(job, what) if job == self.job:
                self.due += (JobObserved(job, outcome) for outcome in self._outcomes(what))

    def _outcomes(self, what: protocol.Command) -> Iterator[protocol.Observation]:
        match what:
            case protocol.Decide(_, victim, replacement):
                self.decisions.append(PredictedDecision(victim, replacement))
            case protocol.ProbeHost(host):
                yield (
                    protocol.HostSilent(host) if host in self.dead else protocol.HostAnswered(host)
                )
                if host in self.dead & self.outlets:
                    yield protocol.HostOff(host)
            case protocol.NameFarEnd(port):
                yield from (protocol.FarEndDark(port, host) for host in sorted(self.dead))
            case protocol.Fence(_, host, means):
                self.fences.append(PredictedFence(host, means))
                if means == "network":
                    left = (one for one in self.circuits[-1] if host not in one.hosts)
                    self.circuits.append(frozenset(left))
                yield protocol.Fenced(host)
            case protocol.SetCircuits(circuits, _, newcomer, number):
                self.circuits.append(circuits)
                yield protocol.LinksGood(newcomer, number)
            case protocol.Leave(ranks, _):
                step = self.view.jobs[self.job].step
                yield from (protocol.RankLeft(rank, step + 1) for rank in sorted(ranks))
            case protocol.PrepareSpare(_, host) | protocol.RestartRank(_, host):
                yield protocol.SpareReady(host)
            case protocol.Tell(ranks, {"do": "checkpoints"}):
                step = self.view.jobs[self.job].step
                yield from (protocol.CheckpointsFound(rank, (step + 1,)) for rank in ranks)
            case protocol.Join():
                yield from self._joined(what)

    def _joined(self, join: protocol.Join) -> Iterator[protocol.Observation]:
        job = replace(
            self.view.jobs[self.job],
            hosts=join.hosts,
            generation=join.generation,
            step=join.committed - 1,
        )
        self.view = replace(self.view, jobs={**self.view.jobs, self.job: job})
        self.due.append(MembershipChanged(self.job, job))
        yield from (protocol.StepDone(rank, join.committed) for rank in range(len(join.hosts)))


def predicted_recovery(
    name: str,
    controller: Controller,
    view: View,
    faults: Sequence[ExpectedFault],
    *,
    heartbeat: float,
    outlets: frozenset[str],
) -> PredictedRecovery | None:
    """Return the course that a controller is expected to take after faults of one job.

    A fault that comes in a step finds the recovery from those before it over; one that comes so
    long after another is observed together with it. `outlets` are the hosts whose outlet can be
    read. None where the controller is expected to do nothing.
    """
    job = faults[0].job
    course = _Course(job, view, outlets, [view.circuits])
    state = controller.begin(view)
    for number, fault in enumerate(faults):
        course.strike(fault, heartbeat)
        if number + 1 < len(faults) and faults[number + 1].plan.after is not None:
            continue
        for _ in range(_MOST):
            if not course.due:
                break
            state, commands = controller.step(state, view.now, course.due.popleft())
            for command in commands:
                course.carry_out(command)
    if not course.decisions:
        return None
    return PredictedRecovery(
        *(job, name, tuple(course.decisions), tuple(course.fences)),
        circuits=tuple(in_order(circuits) for circuits in course.circuits[1:]),
        hosts=course.view.jobs[job].hosts,
    )
