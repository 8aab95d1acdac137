"""A small model of everything around controllers: hosts, jobs, one switch, and two faults.

Whatever may happen next is a move: an observation is delivered, a timer expires, a command is
carried out, a rank finishes a step, a fault strikes. What one controller commands keeps its order,
and what it is told where that has one source. Circuits are changed by the rules of the fabric:
nobody changes those of others, and hosts that a job has lost get no light.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from testbed.control import protocol
from testbed.control.controller import (
    ChangeCircuits,
    ChangeFailed,
    CircuitsChanged,
    CommandJob,
    Controller,
    Fail,
    JobObserved,
    JobView,
    MembershipChanged,
    TimerExpired,
    View,
)
from testbed.fabric.circuits import HostPort, Matching
from testbed.fabric.owners import CircuitOfAnother, change_own

REFUSAL = "refusal"
"""The fault that the switch refuses a change; it leaves all as it was."""


@dataclass(frozen=True)
class Member:
    """A controller with its job: its state, what it has not observed yet and what it commanded."""

    name: str
    state: Any = field(hash=False)
    job: JobView
    told: JobView
    """The job as the controller has been told; `job` may be newer."""
    steps: tuple[int, ...]
    circuits: Matching
    fenced: frozenset[str] = frozenset()
    inbox: tuple[Any, ...] = field(default=(), hash=False)
    commands: tuple[Any, ...] = field(default=(), hash=False)


@dataclass(frozen=True)
class World:
    """All of it at one moment."""

    members: tuple[Member, ...]
    faults: frozenset[str]
    now: float = 0.0
    wrong: str = ""


@dataclass
class Model:
    """Which moves a world has, for controllers by the names of their jobs."""

    controllers: Mapping[str, Controller]
    views: Mapping[str, View]
    due: Callable[[str, JobView, int, float], Matching]
    """The circuits that a job must have, by its hosts, the step that all have done and the time."""
    faults: frozenset[str]
    """Each once, at any time: REFUSAL, `kill a` for a rank of job a, `replace a` for a host."""
    replaced: Mapping[str, JobView] = field(default_factory=dict)
    """What a job is after one of its hosts was replaced."""
    paced: frozenset[str] = frozenset()
    """The jobs whose ranks report steps; without light they do none."""
    unordered: frozenset[str] = frozenset()
    """The controllers that observe what they have been told in any order: it has many sources."""

    def start(self):
        """Return the world before anything has happened."""
        members = []
        for name, controller in self.controllers.items():
            view = self.views[name]
            job, state = view.jobs[name], controller.begin(view)
            steps = (job.step,) * len(job.hosts)
            members.append(Member(name, state, job, job, steps, view.circuits))
        return World(tuple(members), self.faults)

    def moves(self, world):
        """Yield what may happen next, by name, each with the world after it."""
        for at, member in enumerate(world.members):
            name = member.name
            for number in range(len(member.inbox) if name in self.unordered else 1):
                for what in member.inbox[number : number + 1]:
                    others = (*member.inbox[:number], *member.inbox[number + 1 :])
                    text = type(getattr(what, "what", what)).__name__
                    taken = replace(member, inbox=others)
                    yield f"{name} observes {text}", self._told(world, at, taken, what)
            wake_at = self.controllers[name].wake_at(member.state)
            if wake_at is not None:
                later = replace(world, now=max(world.now, wake_at))
                yield f"timer of {name}", self._told(later, at, member, TimerExpired())
            if member.commands:
                yield from self._executions(world, at, member)
            if name in self.paced and member.circuits:
                yield f"step of {name}", _stepped(world, at, member)
            for fault in world.faults & {f"kill {name}", f"replace {name}"}:
                left = replace(world, faults=world.faults - {fault})
                yield fault, self._struck(left, at, member, fault)

    def wrong(self, world):
        """Return what must never be, or nothing: also that all rest and a job has no light."""
        if world.wrong:
            return world.wrong
        if any(member.inbox or member.commands for member in world.members):
            return ""
        for member in world.members:
            wake_at = self.controllers[member.name].wake_at(member.state)
            if wake_at is not None and wake_at <= world.now:
                continue
            due = self.due(member.name, member.job, min(member.steps), world.now)
            if member.circuits != due:
                return f"deadlock: nothing is under way, and {member.name} lacks its circuits"
        return ""

    def _told(self, world, at, member, observation):
        """Return the world after a controller has observed something, its commands checked."""
        if isinstance(observation, MembershipChanged):
            member = replace(member, told=observation.view)
        controller = self.controllers[member.name]
        state, commands = controller.step(member.state, world.now, observation)
        member = replace(member, state=state, commands=(*member.commands, *commands))
        known = {port for own in member.told.ports for port in own}
        wrong = world.wrong
        for command in commands:
            match command:
                case Fail(reason) | CommandJob(_, protocol.GiveUp(reason)):
                    wrong = f"{member.name} gave up: {reason}"
                case ChangeCircuits(_, add) if not _ends(add) <= known:
                    wrong = f"unsafe: {member.name} wants light at a port that is not its job's"
        return replace(_with(world, at, member), wrong=wrong)

    def _executions(self, world, at, member):
        command, *others = member.commands
        after = replace(member, commands=tuple(others))
        match command:
            case ChangeCircuits(remove, add):
                yield f"change of {member.name}", _changed(world, at, after, remove, add)
                if REFUSAL in world.faults:
                    refused = _heard(after, ChangeFailed("the switch is busy"))
                    left = replace(world, faults=world.faults - {REFUSAL})
                    yield f"the switch refuses {member.name}", _with(left, at, refused)
            case CommandJob(job, protocol.SetCircuits(circuits, _, newcomer)):
                yield f"change of {member.name}", _set(world, at, after, job, circuits, newcomer)
                if REFUSAL in world.faults:  # the executor of policies tries once more
                    left = replace(world, faults=world.faults - {REFUSAL})
                    yield f"the switch refuses {member.name}", left
            case CommandJob(job, what):
                text = f"{type(what).__name__} of {member.name}"
                yield text, _job_commanded(world, at, after, job, what)

    def _struck(self, world, at, member, fault):
        """Return the world after a fault; ranks go on from the step that all have done."""
        if fault.startswith("kill"):
            said = JobObserved(member.name, protocol.RankEnded(1, -9))
            return _with(world, at, _heard(member, said))
        steps = (min(member.steps),) * len(member.steps)
        job = replace(self.replaced[member.name], step=min(steps))
        member = replace(member, job=job, steps=steps)
        return _with(world, at, _heard(member, MembershipChanged(member.name, job)))


def job_of(hosts, per_host=1):
    """Return a job with one rank on each host."""
    ports = tuple(tuple(HostPort(host, f"p{n}") for n in range(per_host)) for host in hosts)
    return JobView(tuple(hosts), ports)


def _changed(world, at, member, remove, add):
    """Carry a change out by the rules of the fabric."""
    owned = {each.name: each.circuits for each in world.members}
    present = {port for own in member.job.ports for port in own}
    try:
        after = change_own(owned, member.name, remove, add)
    except CircuitOfAnother as error:
        return replace(world, wrong=f"circuit of another: {error}")
    if not _ends(add) <= present:
        refused = ChangeFailed("a host is not one of the job's any more")
        return _with(world, at, _heard(member, refused))
    member = replace(member, circuits=after[member.name])
    return _with(world, at, _heard(member, CircuitsChanged()))


def _set(world, at, member, job, circuits, newcomer):
    """Carry out a policy's command, which names all circuits of its job."""
    owned = {each.name: each.circuits for each in world.members}
    try:
        change_own(owned, member.name, member.circuits - circuits, circuits - member.circuits)
    except CircuitOfAnother as error:
        return replace(world, wrong=f"circuit of another: {error}")
    if member.fenced & {end.host for end in _ends(circuits)}:
        return replace(world, wrong=f"unsafe: {member.name} gives light to a fenced host")
    member = replace(member, circuits=circuits)
    return _with(world, at, _heard(member, JobObserved(job, protocol.LinksGood(newcomer))))


def _job_commanded(world, at, member, job, command):
    """Carry out a command to a job's ranks, and let them answer."""
    said = []
    match command:
        case protocol.Fence(_, host, _):
            member = replace(member, fenced=member.fenced | {host})
            said = [protocol.Fenced(host)]
        case protocol.PrepareSpare(_, host):
            said = [protocol.SpareReady(host)]
        case protocol.Leave(ranks, _):
            said = [protocol.RankLeft(rank, 7) for rank in sorted(ranks)]
        case protocol.Join(_, hosts, committed, _):
            if member.fenced & {*hosts}:
                return replace(world, wrong=f"unsafe: a fenced host joins {member.name} again")
            member = replace(member, job=replace(member.job, hosts=hosts))
            said = [protocol.StepDone(rank, committed + 1) for rank in range(len(hosts))]
    return _with(world, at, _heard(member, *(JobObserved(job, what) for what in said)))


def _stepped(world, at, member):
    """Have the first rank that is behind finish a step."""
    rank = member.steps.index(min(member.steps))
    step = member.steps[rank] + 1
    steps = (*member.steps[:rank], step, *member.steps[rank + 1 :])
    said = JobObserved(member.name, protocol.StepDone(rank, step))
    return _with(world, at, _heard(replace(member, steps=steps), said))


def _heard(member, *said):
    return replace(member, inbox=(*member.inbox, *said))


def _ends(circuits):
    return {end for circuit in circuits for end in circuit.ends}


def _with(world, at, member):
    return replace(world, members=(*world.members[:at], member, *world.members[at + 1 :]))
