"""The policy `splice`: a spare host replaces the victim in the ring by new circuits.

The order is LUMION's (arXiv 2505.23105) with the procedure of the same group's fault manager
(Morphlux, section 5.3): fence the victim, as the lab permits it; then program the fabric, let the
survivors leave and prepare the spare in parallel; then form a new generation whose newcomer takes
its state from its ring predecessor. A circuit that goes dark between two hosts that answer is made
again.

A spare that fails is followed by the next. A survivor that fails before the new generation is
ordered to form ends the recovery; one that fails later is replaced too, as long as another rank has
the state of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from testbed.control import protocol
from testbed.control.descriptors import SpliceOptions
from testbed.control.failure_detection import Commands, Evidence, HostObservation
from testbed.control.fence_order import Failure, fences
from testbed.fabric.topology import ring


@dataclass(frozen=True, slots=True)
class Repair:
    """A recovery in progress: the rank that is replaced, if any, and the steps done so far."""

    rank: int | None
    victim: str = ""
    fences: tuple[protocol.Means, ...] = ()
    """Those that are left to be tried, should the one that was commanded fail."""
    fenced: bool = False
    links_good: bool = False
    spare_ready: bool = False
    left: Mapping[int, int] = field(default_factory=dict)
    joined: bool = False
    finished: frozenset[int] = frozenset()

    @property
    def is_prepared(self) -> bool:
        """Tell whether a new generation can be formed once all survivors have left."""
        return self.links_good and (self.rank is None or (self.fenced and self.spare_ready))


@dataclass(frozen=True, slots=True)
class State:
    """A job under the policy: its situation, the evidence of failures, and the repair under way."""

    now: protocol.Situation
    evidence: Evidence
    repair: Repair | None = None
    gave_up: bool = False


class Splice:
    """The policy `splice`; see the module."""

    def __init__(self, options: SpliceOptions) -> None:
        self._probe_limit = options.probe

    def begin(self, situation: protocol.Situation) -> State:
        """Return the policy's state for a job that runs without failures."""
        return State(situation, self._no_evidence(situation))

    def is_recovering(self, state: State) -> bool:
        """Tell whether a repair is in progress."""
        return state.repair is not None

    def step(self, state: State, observation: protocol.Observation) -> tuple[State, Commands]:
        """Return the policy's next state and the commands to carry out."""
        if state.gave_up:
            return state, ()
        match observation:
            case protocol.ValuesCorrupt(rank, why):
                return self._give_up(state, f"rank {rank} found corrupt values: {why}")
            case protocol.AgentLost(host) if host not in state.now.hosts:
                return _without_spare(state, host), ()
        if state.repair is None or state.repair.joined:
            return self._watch(state, observation)
        return self._repair(state, state.repair, observation)

    # --- a generation is running, or has been ordered to form -------------------------------

    def _watch(self, state: State, observation: protocol.Observation) -> tuple[State, Commands]:
        match observation:
            case protocol.RankEnded(rank, code):
                because = f"rank {rank} ended with code {code}"
                return self._replace(state, rank, because, "rank")
            case protocol.HeartbeatMissed(rank):
                return self._replace(state, rank, f"rank {rank} was silent", "rank")
            case protocol.StepDone(rank, _) if state.repair is not None:
                return self._finish_when_all(state, state.repair, rank)
        if isinstance(observation, HostObservation):
            return self._add_evidence(state, observation)
        return state, ()

    def _add_evidence(self, state: State, observation: HostObservation) -> tuple[State, Commands]:
        evidence, probes = state.evidence.after(observation)
        state = replace(state, evidence=evidence)
        if found := evidence.failed:
            rank = state.now.hosts.index(found.host)
            return self._replace(state, rank, found.because, found.failure)
        if len(evidence.unreachable) > 1:
            names = " and ".join(evidence.unreachable)
            return self._give_up(state, f"{names} do not answer: is the way to them broken?")
        if evidence.dark_between_answering_hosts:
            return self._restore_circuits(state)
        return state, probes

    # --- deciding ---------------------------------------------------------------------------

    def _replace(
        self, state: State, rank: int, because: str, failure: Failure
    ) -> tuple[State, Commands]:
        victim = state.now.hosts[rank]
        if missing := _missing_state(state, rank):
            return self._give_up(state, f"{because}, {missing}")
        if not state.now.spares:
            return self._give_up(state, f"{because}, and no spare host is left")
        if lost := [host for host in state.evidence.unreachable if host != victim]:
            return self._give_up(state, f"{because}, and {lost[0]} does not answer")
        permitted = fences(failure, state.now.fences[victim])
        if not permitted:
            return self._give_up(state, f"{because}, and the lab permits no fence of {victim}")
        first, *others = permitted
        now, repair = _spliced(state.now, rank), Repair(rank, victim, tuple(others))
        decided = protocol.Decide(because, victim, now.hosts[rank])
        state = replace(state, now=now, repair=repair)
        return state, (decided, protocol.Fence(rank, victim, first))

    def _restore_circuits(self, state: State) -> tuple[State, Commands]:
        dark = state.evidence.dark_between_answering_hosts
        names = ", ".join(sorted(map(str, dark)))
        because = f"{names} is dark between hosts that answer"
        if missing := _missing_state(state, None):
            return self._give_up(state, f"{because}, {missing}")
        repair = Repair(None)
        return replace(state, repair=repair), (
            protocol.Decide(because, names, names),
            protocol.SetCircuits(ring(state.now.hosts, state.now.ports), dark),
            protocol.Leave(_survivors(state, repair), state.now.generation),
        )

    def _give_up(self, state: State, reason: str) -> tuple[State, Commands]:
        return replace(state, gave_up=True), (protocol.GiveUp(reason),)

    # --- a repair is under way --------------------------------------------------------------

    def _repair(
        self, state: State, repair: Repair, observation: protocol.Observation
    ) -> tuple[State, Commands]:
        """Go on with a repair whose generation is not formed yet.

        Hosts that do not answer are no evidence meanwhile: ports are dark because circuits are
        being moved, and a host that starts a process is busy.
        """
        newcomer = "" if repair.rank is None else state.now.hosts[repair.rank]
        present = ("", newcomer)
        match observation:
            case protocol.Fenced() if not repair.fenced and repair.rank is not None:
                leave = protocol.Leave(_survivors(state, repair), state.now.generation)
                commands = (*self._add_spare(state, repair.rank), leave)
                return replace(state, repair=replace(repair, fenced=True)), commands
            case protocol.FenceFailed(host, reason) if host == repair.victim and not repair.fenced:
                return self._next_fence(state, repair, reason)
            case protocol.RankLeft(rank, committed):
                left = {**repair.left, rank: committed}
                return self._join_when_ready(state, replace(repair, left=left))
            case protocol.RankEnded(rank, code) if rank != repair.rank:
                return self._give_up(state, f"rank {rank} ended too, with code {code}")
            case protocol.LinksGood(of) if of in present:
                return self._join_when_ready(state, replace(repair, links_good=True))
            case protocol.SpareReady(of) if of in present:
                return self._join_when_ready(state, replace(repair, spare_ready=True))
            case protocol.CommandFailed(reason, spare=True, newcomer=of) if of in present:
                return self._next_spare(state, repair, reason)
            case protocol.CommandFailed(reason, spare=False):
                return self._give_up(state, reason)
            case protocol.AgentLost(host) if host == newcomer:
                return self._next_spare(state, repair, f"the agent of {host} is gone")
            case protocol.AgentLost(host):
                return self._give_up(state, f"the agent of {host} is gone too")
            case protocol.RankEnded(_, code) if repair.fenced:
                return self._next_spare(state, repair, f"its rank ended with code {code}")
        return state, ()

    def _next_fence(self, state: State, repair: Repair, reason: str) -> tuple[State, Commands]:
        if repair.rank is None or not repair.fences:
            text = f"{repair.victim} may still take part, for no permitted fence came up: {reason}"
            return self._give_up(state, text)
        means, *others = repair.fences
        state = replace(state, repair=replace(repair, fences=tuple(others)))
        return state, (protocol.Fence(repair.rank, repair.victim, means),)

    def _add_spare(self, state: State, rank: int) -> Commands:
        """Return the commands that make a host take a rank's place."""
        wanted = ring(state.now.hosts, state.now.ports)
        host = state.now.hosts[rank]
        fresh = frozenset(circuit for circuit in wanted if host in circuit.hosts)
        return protocol.SetCircuits(wanted, fresh, host), protocol.PrepareSpare(rank, host)

    def _next_spare(self, state: State, repair: Repair, reason: str) -> tuple[State, Commands]:
        if repair.rank is None or not state.now.spares:
            return self._give_up(state, f"{reason}, and no spare host is left")
        now = _spliced(state.now, repair.rank)
        state = replace(state, now=now, repair=replace(repair, links_good=False, spare_ready=False))
        because = f"the spare failed: {reason}"
        decided = protocol.Decide(because, f"rank {repair.rank}", now.hosts[repair.rank])
        # Before the fence is up nothing is moved; then it is the new spare that is brought in.
        return state, (decided, *(self._add_spare(state, repair.rank) if repair.fenced else ()))

    def _join_when_ready(self, state: State, repair: Repair) -> tuple[State, Commands]:
        survivors = _survivors(state, repair)
        if not (survivors <= repair.left.keys() and repair.is_prepared):
            return replace(state, repair=repair), ()
        now = replace(state.now, generation=state.now.generation + 1)
        restore = {} if repair.rank is None else {repair.rank: (repair.rank - 1) % len(now.hosts)}
        join = protocol.Join(
            now.generation, now.hosts, min(repair.left[r] for r in survivors), restore
        )
        return State(now, self._no_evidence(now), replace(repair, joined=True)), (join,)

    def _finish_when_all(self, state: State, repair: Repair, rank: int) -> tuple[State, Commands]:
        finished = repair.finished | {rank}
        is_over = len(finished) == len(state.now.hosts)
        return replace(state, repair=None if is_over else replace(repair, finished=finished)), ()

    def _no_evidence(self, situation: protocol.Situation) -> Evidence:
        circuits = ring(situation.hosts, situation.ports)
        return Evidence(situation.hosts, circuits, self._probe_limit)


def _spliced(situation: protocol.Situation, rank: int) -> protocol.Situation:
    """Return a situation in which the first spare has taken a rank's place."""
    spare, *others = situation.spares
    hosts = (*situation.hosts[:rank], spare, *situation.hosts[rank + 1 :])
    return replace(situation, hosts=hosts, spares=tuple(others))


def _survivors(state: State, repair: Repair) -> frozenset[int]:
    return frozenset(range(len(state.now.hosts))) - {repair.rank}


def _missing_state(state: State, lost: int | None) -> str:
    """Return why a generation without the rank `lost` could not go on, or an empty string."""
    if lost is not None and len(state.now.hosts) == 1:
        return "and no other rank holds its state"
    newcomer = None if state.repair is None else state.repair.rank
    if state.repair and newcomer not in {None, lost, *state.repair.finished}:
        return f"before rank {newcomer} was known to have its state"
    return ""


def _without_spare(state: State, host: str) -> State:
    spares = tuple(spare for spare in state.now.spares if spare != host)
    return replace(state, now=replace(state.now, spares=spares))
