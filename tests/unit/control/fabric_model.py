"""A small model of everything around controllers: hosts, jobs, one switch, and two faults.

Whatever may happen next is a move: an observation is delivered, a timer expires, a command is
carried out, a rank finishes a step, a fault strikes. What one controller commands keeps its order,
and what it is told where that has one source. Circuits are changed by the rules of the fabric:
nobody changes those of others, and hosts that a job has lost get no light.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

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
from testbed.fabric.circuits import Matching
from testbed.fabric.owners import CircuitOfAnother, change_own
from tests.unit.control.job_model import (
    Member,
    Said,
    World,
    ends_of,
    heard,
    job_commanded,
    set_circuits,
    translated,
    verified,
    with_member,
)

REFUSAL = "refusal"
"""The fault that the switch refuses a change; it leaves all as it was."""


@dataclass
class Model:
    """Which moves a world has, for controllers by the names of their jobs."""

    controllers: Mapping[str, Controller]
    views: Mapping[str, View]
    due: Callable[[str, JobView, int, float], Matching]
    """The circuits that a job must have, by its hosts, the step that all have done and the time."""
    faults: frozenset[str]
    """Each once, at any time: REFUSAL, `kill a` for rank 1 of job a, `kill a 2` for another one,
    `replace a` for a host."""
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
            of = frozenset(job.hosts)
            members.append(Member(name, state, job, job, steps, view.circuits, with_state=of))
        return World(tuple(members), self.faults)

    def moves(self, world):
        """Yield what may happen next, by name, each with the world after it."""
        for at, member in enumerate(world.members):
            name = member.name
            for number in range(len(member.inbox) if name in self.unordered else 1):
                for what in member.inbox[number : number + 1]:
                    others = (*member.inbox[:number], *member.inbox[number + 1 :])
                    text = what.what if isinstance(what, Said) else ""
                    text = text or type(getattr(what, "what", what)).__name__
                    taken = replace(member, inbox=others)
                    yield f"{name} observes {text}", self._told(world, at, taken, what)
            wake_at = self.controllers[name].wake_at(member.state)
            if wake_at is not None:
                later = replace(world, now=max(world.now, wake_at))
                yield f"timer of {name}", self._told(later, at, member, TimerExpired())
            for number in range(len(member.commands) if name in self.unordered else 1):
                for command in member.commands[number : number + 1]:
                    yield from self._executions(world, at, member, number, command)
            if name in self.paced and member.circuits:
                yield f"step of {name}", _stepped(world, at, member)
            for command in member.verifying:
                yield f"links of {name}", with_member(world, at, verified(member, command))
            for fault in sorted(world.faults):
                if fault.split()[1:2] != [name]:
                    continue
                left = replace(world, faults=world.faults - {fault})
                yield fault, self._struck(left, at, member, fault)

    def wrong(self, world):
        """Return what must never be, or nothing: also that all rest and a job has no light."""
        if world.wrong:
            return world.wrong
        if any(member.inbox or member.commands or member.verifying for member in world.members):
            return ""
        for member in world.members:
            wake_at = self.controllers[member.name].wake_at(member.state)
            if wake_at is not None and wake_at <= world.now:
                continue
            due = self.due(member.name, member.job, min(member.steps), world.now)
            controller = self.controllers[member.name]
            recovers = getattr(controller, "is_recovering", lambda _: False)
            if recovers(member.state):
                return f"deadlock: nothing is under way, and {member.name} has not recovered"
            if lost := member.dead & {*member.job.hosts}:
                return f"deadlock: nothing is under way, and {min(lost)} is dead"
            if member.circuits != due:
                return f"deadlock: nothing is under way, and {member.name} lacks its circuits"
        return ""

    def _told(self, world, at, member, observation):
        """Return the world after a controller has observed something, its commands checked."""
        if isinstance(observation, Said):
            observation = translated(member, observation)
            if observation is None:
                return with_member(world, at, member)
        if isinstance(observation, MembershipChanged):
            member = replace(member, told=observation.view)
        controller = self.controllers[member.name]
        state, commands = controller.step(member.state, world.now, observation)
        made = [one.what for one in commands if isinstance(one, CommandJob)]
        made = [one for one in made if isinstance(one, protocol.SetCircuits)]
        latest = made[-1] if made else member.latest
        member = replace(member, state=state, latest=latest)
        known = {port for own in member.told.ports for port in own}
        wrong = world.wrong
        for command in commands:
            match command:
                case Fail(reason) | CommandJob(_, protocol.GiveUp(reason)):
                    wrong = f"{member.name} gave up: {reason}"
                case ChangeCircuits(_, add) if not ends_of(add) <= known:
                    wrong = f"unsafe: {member.name} wants light at a port that is not its job's"
        world = replace(with_member(world, at, member), wrong=wrong)
        for command in commands:
            world = self._taken(world, at, command)
        return world

    def _taken(self, world, at, command):
        """Carry a command out at once, or have a worker do it, as the executor does."""
        member = world.members[at]
        match command:
            case CommandJob(job, protocol.PrepareSpare() | protocol.Leave() | protocol.Join()):
                return job_commanded(world, at, member, job, command.what)
            case CommandJob(_, protocol.Fence(_, host, _)) if member.latest:
                if host in {end.host for end in ends_of(member.latest.circuits)}:
                    member = replace(member, latest=None)
            case CommandJob(_, protocol.Decide() | protocol.GiveUp() | protocol.ProbeHost()):
                return world
        return with_member(world, at, replace(member, commands=(*member.commands, command)))

    def _executions(self, world, at, member, number, command):
        others = (*member.commands[:number], *member.commands[number + 1 :])
        after = replace(member, commands=others)
        match command:
            case ChangeCircuits(remove, add):
                yield f"change of {member.name}", _changed(world, at, after, remove, add)
                if REFUSAL in world.faults:
                    refused = heard(after, ChangeFailed("the switch is busy"))
                    left = replace(world, faults=world.faults - {REFUSAL})
                    yield f"the switch refuses {member.name}", with_member(left, at, refused)
            case CommandJob(_, protocol.SetCircuits() as what):
                yield f"change of {member.name}", set_circuits(world, at, after, what)
                if REFUSAL in world.faults:  # the executor of policies tries once more
                    left = replace(world, faults=world.faults - {REFUSAL})
                    yield f"the switch refuses {member.name}", left
            case CommandJob(job, what):
                text = f"{type(what).__name__} of {member.name}"
                yield text, job_commanded(world, at, after, job, what)

    def _struck(self, world, at, member, fault):
        """Return the world after a fault; ranks go on from the step that all have done."""
        if fault.startswith("kill"):
            _, _, rank = f"{fault} 1".split()[:3]
            host = member.job.hosts[int(rank)]
            member = replace(member, dead=member.dead | {host})
            return with_member(world, at, heard(member, Said(host, "ended")))
        steps = (min(member.steps),) * len(member.steps)
        job = replace(self.replaced[member.name], step=min(steps))
        member = replace(member, job=job, steps=steps)
        return with_member(world, at, heard(member, MembershipChanged(member.name, job)))


def _changed(world, at, member, remove, add):
    """Carry a change out by the rules of the fabric."""
    owned = {each.name: each.circuits for each in world.members}
    present = {port for own in member.job.ports for port in own}
    try:
        after = change_own(owned, member.name, remove, add)
    except CircuitOfAnother as error:
        return replace(world, wrong=f"circuit of another: {error}")
    if not ends_of(add) <= present:
        refused = ChangeFailed("a host is not one of the job's any more")
        return with_member(world, at, heard(member, refused))
    member = replace(member, circuits=after[member.name])
    return with_member(world, at, heard(member, CircuitsChanged()))


def _stepped(world, at, member):
    """Have the first rank that is behind finish a step."""
    rank = member.steps.index(min(member.steps))
    step = member.steps[rank] + 1
    steps = (*member.steps[:rank], step, *member.steps[rank + 1 :])
    said = JobObserved(member.name, protocol.StepDone(rank, step))
    return with_member(world, at, heard(replace(member, steps=steps), said))
