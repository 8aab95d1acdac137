"""The policies `restart` and `migrate`: all ranks end, and start again from a checkpoint.

The host that failed is fenced, as the lab permits it. Where only its rank failed, the rank is
started there again; else a spare host takes its place, in circuits that are made meanwhile. Every
rank says which of its checkpoints are whole. The job goes on from the newest that all have which
have any, else from its beginning; to the others, as a newcomer, the predecessor in the ring sends
the state.

With `migrate` no host of the job stays: all ranks are ended, and started on as many spare hosts,
which read the checkpoints that the others wrote where all hosts can. It is what Morphlux (arXiv
2508.03674, section 6.2) and LUMION (arXiv 2505.23105) replace: without so many spares it gives up.

A host that fails before the new generation is ordered to form is replaced in the same recovery.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from testbed.control import protocol
from testbed.control.descriptors import RestartOptions
from testbed.control.failure_detection import Commands, Evidence, HostFailure, HostObservation
from testbed.control.fence_order import fences
from testbed.control.policy import Situation
from testbed.fabric.circuits import Matching
from testbed.fabric.topology import ring


@dataclass(frozen=True, slots=True)
class Repair:
    """A recovery in progress: what is to be done before the new generation is formed."""

    kept: Matching
    """Circuits that are lit and stay; what goes dark of these is evidence."""
    unfenced: Mapping[str, tuple[protocol.Means, ...]] = field(default_factory=dict)
    """By host that failed and is not fenced yet, the fences left to be tried after the present."""
    restarted: frozenset[str] = frozenset()
    """Hosts on which ranks were ordered to start again."""
    steps: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By host whose rank is ready and was asked, the steps that it could go on with."""
    circuits: int = 0
    """The number of the circuits that were commanded last; 0 before the first."""
    links_good: bool = False
    problem: str = ""
    """Why something failed, while it is asked whether a host did."""
    joined: bool = False
    finished: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class State:
    """A job under the policy; the hosts of `now` are those of the generation that is to be."""

    now: Situation
    evidence: Evidence
    repair: Repair | None = None
    moves_all: bool = False
    """A failure moves the whole job to other hosts."""
    commanded: int = 0
    """How often circuits were commanded."""
    gave_up: bool = False


class Restart:
    """The policy `restart`; see the module."""

    moves_all = False

    def __init__(self, options: RestartOptions) -> None:
        self._probe_limit = options.probe

    def begin(self, situation: Situation) -> State:
        """Return the policy's state for a job that runs without failures."""
        circuits = ring(situation.hosts, situation.ports)
        evidence = Evidence(situation.hosts, circuits, self._probe_limit)
        return State(situation, evidence, moves_all=self.moves_all)

    def is_recovering(self, state: State) -> bool:
        """Tell whether a repair is in progress."""
        return state.repair is not None

    def step(self, state: State, observation: protocol.Observation) -> tuple[State, Commands]:
        """Return the policy's next state and the commands to carry out."""
        if state.gave_up:
            return state, ()
        match observation:
            case protocol.ValuesCorrupt(rank, why):
                return _give_up(state, f"rank {rank} found corrupt values: {why}")
            case protocol.AgentLost(host) if host not in state.now.hosts:
                spares = tuple(spare for spare in state.now.spares if spare != host)
                return replace(state, now=replace(state.now, spares=spares)), ()
            case protocol.RankEnded(rank, code) if _can_fail(state, rank):
                return _rank_failed(state, rank, f"rank {rank} ended with code {code}")
            case protocol.HeartbeatMissed(rank) if _can_fail(state, rank):
                return _rank_failed(state, rank, f"rank {rank} was silent")
        if isinstance(observation, HostObservation):
            return _judge(state, observation)
        if state.repair is None:
            return state, ()
        if state.repair.joined:
            return _finish_when_all(state, state.repair, observation), ()
        return _go_on(state, state.repair, observation)


class Migrate(Restart):
    """The policy `migrate`; see the module."""

    moves_all = True


# --- failures --------------------------------------------------------------------------------


def _can_fail(state: State, rank: int) -> bool:
    """Tell whether a rank runs that is wanted, and not one that is ended or fenced anyway."""
    repair, host = state.repair, state.now.hosts[rank]
    return repair is None or repair.joined or host in {*repair.restarted} - {*repair.unfenced}


def _rank_failed(state: State, rank: int, because: str) -> tuple[State, Commands]:
    return _fail(state, [HostFailure(state.now.hosts[rank], "rank", because)])


def _judge(state: State, observation: HostObservation) -> tuple[State, Commands]:
    """Act upon all that is known of hosts and circuits once something more is."""
    evidence, commands = state.evidence.after(observation)
    state = replace(state, evidence=evidence)
    while (failed := state.evidence.failed) and not state.gave_up:
        state, more = _fail(state, failed)
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


def _fail(state: State, failed: Sequence[HostFailure]) -> tuple[State, Commands]:
    """Decide what replaces hosts, and have them fenced; ranks start again once they are."""
    commands = tuple[protocol.Command, ...]()
    goes_on = state.repair is not None and not state.repair.joined
    if state.moves_all and not goes_on:
        return _move_all(state, {one.host: one for one in failed})
    for one in failed:
        permitted = fences(one.failure, state.now.fences[one.host])
        if not permitted:
            return _give_up(state, f"{one.because}, and the lab permits no fence of {one.host}")
        rank, repair = state.now.hosts.index(one.host), _present(state)
        unfenced = {**repair.unfenced, one.host: permitted[1:]}
        state = replace(state, repair=replace(repair, unfenced=unfenced, problem=""))
        if permitted[0] != "process" or one.failure != "rank" or goes_on:
            state, why = _replace_host(state, rank)
            if why:
                return _give_up(state, f"{one.because}, {why}")
        replacement = state.now.hosts[rank]
        decided = protocol.Decide(one.because, one.host, replacement)
        commands += (decided, protocol.Fence(rank, one.host, permitted[0]))
    repair = _present(state)
    state = replace(state, evidence=state.evidence.among(state.now.hosts, repair.kept))
    if not repair.restarted:
        return state, commands
    state, more = _restart(state, repair)
    return state, commands + more


def _move_all(state: State, failed: Mapping[str, HostFailure]) -> tuple[State, Commands]:
    """Give every rank a spare host, and have all that runs on the present hosts fenced."""
    now = state.now
    size, because = len(now.hosts), " and ".join(one.because for one in failed.values())
    if len(now.spares) < size:
        left = f"{len(now.spares)} spare hosts are left for {size} ranks"
        return _give_up(state, f"{because}, and there is no free slice: {left}")
    fenced, unfenced = list[protocol.Command](), dict[str, tuple[protocol.Means, ...]]()
    for rank, host in enumerate(now.hosts):
        permitted = fences(failed[host].failure if host in failed else "rank", now.fences[host])
        if host not in failed:  # nothing is wrong with it
            permitted = tuple(means for means in permitted if means == "process")
        if not permitted:
            return _give_up(state, f"{because}, and the lab permits no fence of {host}")
        fenced.append(protocol.Fence(rank, host, permitted[0]))
        unfenced[host] = permitted[1:]
    decided = tuple(
        protocol.Decide(one.because, host, now.spares[now.hosts.index(host)])
        for host, one in failed.items()
    )
    now = replace(now, hosts=now.spares[:size], spares=now.spares[size:])
    evidence = state.evidence.among(now.hosts, frozenset())
    repair = Repair(kept=frozenset(), unfenced=unfenced)
    return replace(state, now=now, evidence=evidence, repair=repair), (*decided, *fenced)


def _present(state: State) -> Repair:
    """Return the repair to which a failure belongs: the one under way, or else a new one."""
    if state.repair is not None and not state.repair.joined:
        return state.repair
    return Repair(ring(state.now.hosts, state.now.ports))


def _replace_host(state: State, rank: int) -> tuple[State, str]:
    """Let a spare take the place of a host; return why that cannot be, or an empty string."""
    now, repair = state.now, _present(state)
    host = now.hosts[rank]
    if not now.spares:
        return state, "and no spare host is left"
    spare, *others = now.spares
    hosts = (*now.hosts[:rank], spare, *now.hosts[rank + 1 :])
    kept = frozenset(circuit for circuit in repair.kept if host not in circuit.hosts)
    steps = {of: steps for of, steps in repair.steps.items() if of != host}
    repair = replace(repair, kept=kept, steps=steps, links_good=False)
    return replace(state, now=replace(now, hosts=hosts, spares=tuple(others)), repair=repair), ""


def _restore_circuits(state: State, dark: Matching) -> tuple[State, Commands]:
    repair = _present(state)
    repair = replace(repair, kept=repair.kept - dark, links_good=False)
    evidence = state.evidence.among(state.now.hosts, repair.kept)
    state = replace(state, repair=repair, evidence=evidence)
    if repair.unfenced and not repair.restarted:
        return state, ()
    names = ", ".join(sorted(map(str, dark)))
    decided = protocol.Decide(f"{names} is dark between hosts that answer", names, names)
    state, more = _restart(state, repair)
    return state, (decided, *more)


# --- a repair is under way -------------------------------------------------------------------


def _go_on(
    state: State, repair: Repair, observation: protocol.Observation
) -> tuple[State, Commands]:
    """Go on with a repair whose generation is not formed yet."""
    match observation:
        case protocol.Fenced(host) if host in repair.unfenced:
            unfenced = {name: means for name, means in repair.unfenced.items() if name != host}
            repair = replace(repair, unfenced=unfenced)
            if unfenced or repair.restarted:
                return _join_when_ready(state, repair)
            return _restart(state, repair)
        case protocol.FenceFailed(host, reason) if host in repair.unfenced:
            return _next_fence(state, repair, host, reason)
        case protocol.SpareReady(host) if host in repair.restarted:
            rank = state.now.hosts.index(host)
            return state, (protocol.Tell((rank,), {"do": "checkpoints", "rank": rank}),)
        case protocol.CheckpointsFound(rank, steps):
            found = {**repair.steps, state.now.hosts[rank]: steps}
            return _join_when_ready(state, replace(repair, steps=found))
        case protocol.LinksGood(number=number) if number == repair.circuits:
            return _links_good(state, repair)
        case protocol.Superseded(number=number) if number == repair.circuits:
            return _set_circuits(state, repair)
        case protocol.CommandFailed(reason, spare=True, newcomer=host) if host in state.now.hosts:
            return _fail(state, [HostFailure(host, "rank", reason)])
        case protocol.CommandFailed(reason, number=number) if number in {0, repair.circuits}:
            evidence, probes = state.evidence.probe_all()
            return replace(state, evidence=evidence, repair=replace(repair, problem=reason)), probes
    return state, ()


def _next_fence(state: State, repair: Repair, host: str, reason: str) -> tuple[State, Commands]:
    """Try the next fence; one that is not of the process alone costs the host its place."""
    if not repair.unfenced[host]:
        text = f"{host} may still take part, for no permitted fence came up: {reason}"
        return _give_up(state, text)
    means, *others = repair.unfenced[host]
    repair = replace(repair, unfenced={**repair.unfenced, host: tuple(others)})
    state, decided = replace(state, repair=repair), tuple[protocol.Command, ...]()
    rank = state.now.hosts.index(host) if host in state.now.hosts else 0
    if host in state.now.hosts:
        state, why = _replace_host(state, rank)
        if why:
            return _give_up(state, f"{host} is not fenced by its agent, {why}")
        decided = (protocol.Decide(reason, host, state.now.hosts[rank]),)
    return state, (*decided, protocol.Fence(rank, host, means))


def _restart(state: State, repair: Repair) -> tuple[State, Commands]:
    """Command the circuits that are missing, and start the ranks again that were not yet."""
    fresh = [host for host in state.now.hosts if host not in repair.restarted]
    repair = replace(repair, restarted=repair.restarted | {*fresh})
    state, circuits = replace(state, repair=repair), tuple[protocol.Command, ...]()
    if ring(state.now.hosts, state.now.ports) == repair.kept:
        state = replace(state, repair=replace(repair, links_good=True))
    else:
        state, circuits = _set_circuits(state, repair)
    index = state.now.hosts.index
    return state, (*circuits, *(protocol.RestartRank(index(host), host) for host in fresh))


def _set_circuits(state: State, repair: Repair) -> tuple[State, Commands]:
    """Command the ring of the hosts that are to be, and note that only its outcome counts."""
    number, wanted = state.commanded + 1, ring(state.now.hosts, state.now.ports)
    repair = replace(repair, circuits=number, links_good=False, problem="")
    command = protocol.SetCircuits(wanted, wanted - repair.kept, number=number)
    return replace(state, repair=repair, commanded=number), (command,)


def _links_good(state: State, repair: Repair) -> tuple[State, Commands]:
    """Take all circuits for lit; those that are new were dark only until now."""
    wanted = ring(state.now.hosts, state.now.ports)
    new = {end for circuit in wanted - repair.kept for end in circuit.ends}
    known = replace(state.evidence, dark=state.evidence.dark - new)
    state = replace(state, evidence=known.among(state.now.hosts, wanted))
    return _join_when_ready(state, replace(repair, kept=wanted, links_good=True))


def _join_when_ready(state: State, repair: Repair) -> tuple[State, Commands]:
    """Form a generation that goes on from the newest checkpoint which all have that have any."""
    state, hosts = replace(state, repair=repair), state.now.hosts
    if repair.unfenced or not repair.links_good or repair.steps.keys() < {*hosts}:
        return state, ()
    found = [frozenset(repair.steps[host]) for host in hosts if repair.steps[host]]
    step = max(frozenset.intersection(*found), default=0) if found else 0
    from_disk: Mapping[int, int | str] = {
        rank: protocol.DISK if repair.steps[host] else (rank - 1) % len(hosts)
        for rank, host in enumerate(hosts)
    }
    now = replace(state.now, generation=state.now.generation + 1)
    join = protocol.Join(now.generation, hosts, step, from_disk if step else {})
    return replace(state, now=now, repair=replace(repair, joined=True)), (join,)


def _finish_when_all(state: State, repair: Repair, observation: protocol.Observation) -> State:
    """End the repair with the first step of the new generation that every rank has finished."""
    if not isinstance(observation, protocol.StepDone):
        return state
    finished = repair.finished | {observation.rank}
    is_over = len(finished) == len(state.now.hosts)
    return replace(state, repair=None if is_over else replace(repair, finished=finished))


def _give_up(state: State, reason: str) -> tuple[State, Commands]:
    return replace(state, gave_up=True), (protocol.GiveUp(reason),)
