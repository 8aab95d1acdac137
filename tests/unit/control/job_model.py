"""The jobs of the model: their ranks, what these report, and what commands to a job do.

A rank that was killed neither leaves nor makes steps, and a generation with one makes none. What
came of circuits is known later than they were made, and of those that others were commanded after
it is that they were superseded. What a host says counts for the rank that it is when that is heard.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from testbed.control import protocol
from testbed.control.controller import JobObserved, JobView
from testbed.fabric.circuits import HostPort, Matching
from testbed.fabric.owners import CircuitOfAnother, change_own


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
    dead: frozenset[str] = frozenset()
    """Hosts whose ranks were killed."""
    with_state: frozenset[str] = frozenset()
    """Hosts whose ranks have the state of the model."""
    verifying: tuple[protocol.SetCircuits, ...] = ()
    """Commands whose circuits were made and are not verified yet."""
    latest: protocol.SetCircuits | None = None
    """The circuits that were commanded last."""
    inbox: tuple[Any, ...] = field(default=(), hash=False)
    commands: tuple[Any, ...] = field(default=(), hash=False)


@dataclass(frozen=True)
class Said:
    """What a host reports of its rank: `left` a generation, `step` in one, `ready` or `ended`."""

    host: str
    what: str
    generation: int = 0


@dataclass(frozen=True)
class World:
    """All of it at one moment."""

    members: tuple[Member, ...]
    faults: frozenset[str]
    now: float = 0.0
    wrong: str = ""


def job_of(hosts, per_host=1):
    """Return a job with one rank on each host."""
    ports = tuple(tuple(HostPort(host, f"p{n}") for n in range(per_host)) for host in hosts)
    return JobView(tuple(hosts), ports)


def set_circuits(world, at, member, command):
    """Make the circuits that a policy commands for its whole job, unless others are wanted."""
    circuits = command.circuits
    if command != member.latest:
        superseded = protocol.Superseded(command.newcomer, command.number)
        return with_member(world, at, heard(member, JobObserved(member.name, superseded)))
    owned = {each.name: each.circuits for each in world.members}
    try:
        change_own(owned, member.name, member.circuits - circuits, circuits - member.circuits)
    except CircuitOfAnother as error:
        return replace(world, wrong=f"circuit of another: {error}")
    if member.fenced & {end.host for end in ends_of(circuits)}:
        return replace(world, wrong=f"unsafe: {member.name} gives light to a fenced host")
    verifying = (*member.verifying, command)
    return with_member(world, at, replace(member, circuits=circuits, verifying=verifying))


def verified(member, command):
    """Return a member that hears what came of its circuits; ranks do not matter to light."""
    verifying = tuple(one for one in member.verifying if one is not command)
    of = command.newcomer, command.number
    said = protocol.LinksGood(*of)
    if command != member.latest:
        said = protocol.Superseded(*of)
    return heard(replace(member, verifying=verifying), JobObserved(member.name, said))


def committed(host):
    """Return the steps that a rank has committed when it leaves."""
    return 7 + int(host[1:]) % 2


def translated(member, said):
    """Return what a host's word is to the policy, as the orchestrator translates it, or None."""
    job = member.job
    if said.host not in job.hosts:
        return None
    rank = job.hosts.index(said.host)
    if said.what in ("left", "step") and said.generation != job.generation:
        return None
    words = {
        "ended": protocol.RankEnded(rank, -9),
        "left": protocol.RankLeft(rank, committed(said.host)),
        "step": protocol.StepDone(rank, 9),
        "ready": protocol.SpareReady(said.host),
    }
    return JobObserved(member.name, words[said.what])


def job_commanded(world, at, member, job, command):
    """Carry out a command to a job's ranks, and let them answer."""
    hosts, said = member.job.hosts, []
    match command:
        case protocol.Fence(_, host, _):
            member = replace(member, fenced=member.fenced | {host})
            return with_member(world, at, heard(member, JobObserved(job, protocol.Fenced(host))))
        case protocol.PrepareSpare(rank, host):
            hosts = (*hosts[:rank], host, *hosts[rank + 1 :])
            member = replace(member, job=replace(member.job, hosts=hosts))
            said = [Said(host, "ready")]
        case protocol.Leave(ranks, generation):
            said = [Said(hosts[rank], "left", generation) for rank in sorted(ranks)]
        case protocol.Join():
            return _joined(world, at, member, command)
    said = [one for one in said if one.host not in member.dead]
    return with_member(world, at, heard(member, *said))


def _joined(world, at, member, join):
    """Form a generation: of hosts that are not fenced, with light, and each with the state."""
    hosts, name = join.hosts, member.name
    if member.fenced & {*hosts}:
        return replace(world, wrong=f"unsafe: a fenced host joins {name} again")
    ends = {end.host for end in ends_of(member.circuits)}
    if ends != {*hosts}:
        return replace(world, wrong=f"unsafe: {name} forms a generation without its circuits")
    holders = {host for rank, host in enumerate(hosts) if rank not in join.restore}
    if not holders or not holders <= member.with_state:
        return replace(world, wrong=f"unsafe: a rank of {name} goes on without its state")
    if join.committed != min(map(committed, holders)):
        return replace(world, wrong=f"unsafe: ranks of {name} go on from different steps")
    job = replace(member.job, hosts=hosts, generation=join.generation)
    member = replace(member, job=job)
    if member.dead & {*hosts}:
        return with_member(world, at, member)
    member = replace(member, with_state=member.with_state | {*hosts})
    return with_member(
        world, at, heard(member, *(Said(host, "step", join.generation) for host in hosts))
    )


def heard(member, *said):
    return replace(member, inbox=(*member.inbox, *said))


def ends_of(circuits):
    return {end for circuit in circuits for end in circuit.ends}


def with_member(world, at, member):
    return replace(world, members=(*world.members[:at], member, *world.members[at + 1 :]))
