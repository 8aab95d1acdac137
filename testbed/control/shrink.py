"""The policy `shrink`: a job goes on without the hosts that failed.

A host that failed is fenced, as the lab permits it. Then the ring is closed past it while the other
ranks leave, and these form a new generation, each from its own state. A circuit that goes dark
between two hosts that answer is made again.

Hosts may fail one after the other, also before the new generation is formed: the circuits are then
commanded anew without the last of them, and only that those are good counts. The job ends where
fewer than two hosts would be left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from testbed.control import protocol
from testbed.control.descriptors import ShrinkOptions
from testbed.control.failure_detection import Commands, Evidence, HostFailure, HostObservation
from testbed.control.fence_order import fences
from testbed.control.policy import Situation
from testbed.fabric.circuits import Matching
from testbed.fabric.topology import ring

FEWEST = 2
"""Hosts of which circuits make a ring."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A recovery in progress: the hosts that go on, and what was done so far."""

    hosts: tuple[str, ...]
    kept: Matching
    """Circuits between them that are lit and stay; what goes dark of these is evidence."""
    unfenced: Mapping[str, tuple[protocol.Means, ...]] = field(default_factory=dict)
    """By host that failed and is not fenced yet, the fences left to be tried after the present."""
    circuits: int = 0
    """The number of the circuits that were commanded last; 0 before the first."""
    links_good: bool = False
    problem: str = ""
    """Why these circuits cannot be used; whether a host failed meanwhile is being asked."""
    silent: frozenset[str] = frozenset()
    """Hosts whose ranks miss their heartbeats."""
    left: Mapping[str, int] = field(default_factory=dict)
    """By host whose rank left, the steps in its state."""
    joined: bool = False
    finished: frozenset[int] = frozenset()

    @property
    def missing(self) -> frozenset[str]:
        """Return the hosts whose ranks have not left."""
        return frozenset(self.hosts) - self.left.keys()


@dataclass(frozen=True, slots=True)
class State:
    """A job under the policy: its situation, the evidence of failures, and the repair under way."""

    now: Situation
    evidence: Evidence
    repair: Repair | None = None
    commanded: int = 0
    """How often circuits were commanded."""
    gave_up: bool = False

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts that go on."""
        return self.now.hosts if self.repair is None else self.repair.hosts


class Shrink:
    """The policy `shrink`; see the module."""

    def __init__(self, options: ShrinkOptions) -> None:
        self._probe_limit = options.probe

    def begin(self, situation: Situation) -> State:
        """Return the policy's state for a job that runs without failures."""
        circuits = ring(situation.hosts, situation.ports)
        return State(situation, Evidence(situation.hosts, circuits, self._probe_limit))

    def is_recovering(self, state: State) -> bool:
        """Tell whether a repair is in progress."""
        return state.repair is not None

    def step(self, state: State, observation: protocol.Observation) -> tuple[State, Commands]:
        """Return the policy's next state and the commands to carry out."""
        if state.gave_up:
            return state, ()
        repair = state.repair
        match observation:
            case protocol.ValuesCorrupt(rank, why):
                return _give_up(state, f"rank {rank} found corrupt values: {why}")
            case protocol.RankEnded(rank, code) if state.now.hosts[rank] in state.hosts:
                return _rank_failed(state, rank, f"rank {rank} ended with code {code}")
            case protocol.HeartbeatMissed(rank) if state.now.hosts[rank] in state.hosts:
                if repair is None or repair.joined:
                    return _rank_failed(state, rank, f"rank {rank} was silent")
                silent = repair.silent | {state.now.hosts[rank]}
                return _join_when_ready(state, replace(repair, silent=silent))
        if isinstance(observation, HostObservation):
            return _judge(state, observation)
        if repair is None:
            return state, ()
        if repair.joined:
            return _finish_when_all(state, repair, observation), ()
        return _go_on(state, repair, observation)


# --- failures --------------------------------------------------------------------------------


def _judge(state: State, observation: HostObservation) -> tuple[State, Commands]:
    """Act upon all that is known of hosts and circuits once something more is."""
    evidence, commands = state.evidence.after(observation)
    state = replace(state, evidence=evidence)
    while (failed := state.evidence.failed) and not state.gave_up:
        state, more = _leave_out(state, failed)
        commands += more
    if state.gave_up:
        return state, commands
    evidence, repair = state.evidence, state.repair
    if gone := evidence.inexplicable:
        return _give_up(state, f"{' and '.join(gone)} do not answer: is the way to them broken?")
    if repair and repair.problem and not evidence.is_open:
        return _give_up(state, repair.problem)
    if dark := evidence.dark_between_answering_hosts:
        state, more = _restore_circuits(state, dark)
        commands += more
    return state, commands


def _rank_failed(state: State, rank: int, because: str) -> tuple[State, Commands]:
    return _leave_out(state, [HostFailure(state.now.hosts[rank], "rank", because)])


def _leave_out(state: State, failed: Sequence[HostFailure]) -> tuple[State, Commands]:
    """Decide that hosts have failed, and have them fenced; circuits follow once they are.

    Where circuits were commanded meanwhile, with these hosts, they are commanded anew at once.
    """
    now, commands = state.now, tuple[protocol.Command, ...]()
    repair = _present(state)
    for one in failed:
        hosts = tuple(host for host in repair.hosts if host != one.host)
        permitted = fences(one.failure, now.fences[one.host])
        if len(hosts) < FEWEST:
            return _give_up(state, f"{one.because}, and only {hosts[0]} is left")
        if not permitted:
            return _give_up(state, f"{one.because}, and the lab permits no fence of {one.host}")
        unfenced = {**repair.unfenced, one.host: permitted[1:]}
        kept = frozenset(circuit for circuit in repair.kept if one.host not in circuit.hosts)
        repair = replace(repair, hosts=hosts, kept=kept, unfenced=unfenced)
        fence = protocol.Fence(now.hosts.index(one.host), one.host, permitted[0])
        commands += (protocol.Decide(one.because, one.host, ""), fence)
    repair = replace(repair, links_good=False, problem="")
    state = replace(state, repair=repair, evidence=state.evidence.among(repair.hosts, repair.kept))
    if repair.circuits:
        state, circuits = _set_circuits(state, repair)
        commands += circuits
    return state, commands


def _present(state: State) -> Repair:
    """Return the repair to which a failure belongs: the one under way, or else a new one."""
    if state.repair is not None and not state.repair.joined:
        return state.repair
    return Repair(state.now.hosts, ring(state.now.hosts, state.now.ports))


def _restore_circuits(state: State, dark: Matching) -> tuple[State, Commands]:
    """Make dark circuits again, with those past the hosts that failed if there are any."""
    repair = _present(state)
    repair = replace(repair, kept=repair.kept - dark, links_good=False)
    evidence = state.evidence.among(repair.hosts, repair.kept)
    state = replace(state, repair=repair, evidence=evidence)
    if repair.unfenced and not repair.circuits:
        return state, ()
    names = ", ".join(sorted(map(str, dark)))
    decided = protocol.Decide(f"{names} is dark between hosts that answer", names, names)
    state, circuits = _set_circuits(state, repair)
    return state, (decided, *circuits, *(() if repair.circuits else _leave(state, repair)))


# --- a repair is under way -------------------------------------------------------------------


def _go_on(
    state: State, repair: Repair, observation: protocol.Observation
) -> tuple[State, Commands]:
    """Go on with a repair whose generation is not formed yet."""
    match observation:
        case protocol.Fenced(host) if host in repair.unfenced:
            return _fenced(state, repair, host)
        case protocol.FenceFailed(host, reason) if host in repair.unfenced:
            return _next_fence(state, repair, host, reason)
        case protocol.RankLeft(rank, committed):
            left = {**repair.left, state.now.hosts[rank]: committed}
            return _join_when_ready(state, replace(repair, left=left))
        case protocol.LinksGood(number=number) if number == repair.circuits:
            return _links_good(state, repair)
        case protocol.Superseded(number=number) if number == repair.circuits:
            return _set_circuits(state, repair)
        case protocol.CommandFailed(reason, number=number) if number in {0, repair.circuits}:
            evidence, probes = state.evidence.probe_all()
            return replace(state, evidence=evidence, repair=replace(repair, problem=reason)), probes
    return state, ()


def _fenced(state: State, repair: Repair, host: str) -> tuple[State, Commands]:
    """Close the ring past the hosts that failed, once all of them are fenced."""
    unfenced = {name: means for name, means in repair.unfenced.items() if name != host}
    repair = replace(repair, unfenced=unfenced)
    if unfenced or repair.circuits:
        return _join_when_ready(state, repair)
    state, circuits = _set_circuits(state, repair)
    return state, (*circuits, *_leave(state, repair))


def _next_fence(state: State, repair: Repair, host: str, reason: str) -> tuple[State, Commands]:
    if not repair.unfenced[host]:
        text = f"{host} may still take part, for no permitted fence came up: {reason}"
        return _give_up(state, text)
    means, *others = repair.unfenced[host]
    repair = replace(repair, unfenced={**repair.unfenced, host: tuple(others)})
    fence = protocol.Fence(state.now.hosts.index(host), host, means)
    return replace(state, repair=repair), (fence,)


def _set_circuits(state: State, repair: Repair) -> tuple[State, Commands]:
    """Command the ring of the hosts that go on, and note that only its outcome counts."""
    number = state.commanded + 1
    wanted = ring(repair.hosts, state.now.ports)
    repair = replace(repair, circuits=number, links_good=False, problem="")
    command = protocol.SetCircuits(wanted, wanted - repair.kept, number=number)
    return replace(state, repair=repair, commanded=number), (command,)


def _leave(state: State, repair: Repair) -> Commands:
    ranks = frozenset(map(state.now.hosts.index, repair.hosts))
    return (protocol.Leave(ranks, state.now.generation),)


def _links_good(state: State, repair: Repair) -> tuple[State, Commands]:
    """Take all circuits for lit; those that are new were dark only until now."""
    wanted = ring(repair.hosts, state.now.ports)
    new = {end for circuit in wanted - repair.kept for end in circuit.ends}
    known = replace(state.evidence, dark=state.evidence.dark - new)
    state = replace(state, evidence=known.among(repair.hosts, wanted))
    return _join_when_ready(state, replace(repair, kept=wanted, links_good=True))


def _join_when_ready(state: State, repair: Repair) -> tuple[State, Commands]:
    """Form the new generation once all have left; a rank that alone is silent does not."""
    state = replace(state, repair=repair)
    if repair.missing and repair.missing <= repair.silent:
        reason = "its rank was silent and did not leave"
        return _leave_out(state, [HostFailure(h, "rank", reason) for h in sorted(repair.missing)])
    if repair.missing or repair.unfenced or not repair.links_good:
        return state, ()
    generation, hosts = state.now.generation + 1, repair.hosts
    committed = min(repair.left[host] for host in hosts)
    now = replace(state.now, hosts=hosts, generation=generation)
    join = protocol.Join(generation, hosts, committed, {})
    return replace(state, now=now, repair=replace(repair, joined=True)), (join,)


def _finish_when_all(state: State, repair: Repair, observation: protocol.Observation) -> State:
    """End the repair with the first step of the new generation that every rank has finished."""
    if not isinstance(observation, protocol.StepDone):
        return state
    finished = repair.finished | {observation.rank}
    is_over = len(finished) == len(repair.hosts)
    return replace(state, repair=None if is_over else replace(repair, finished=finished))


def _give_up(state: State, reason: str) -> tuple[State, Commands]:
    return replace(state, gave_up=True), (protocol.GiveUp(reason),)
