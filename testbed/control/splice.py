"""Recovery by splicing: a spare host takes the victim's place in the ring, through the fabric.

The order is LUMION's (arXiv 2505.23105) with the procedure of the same group's fault manager
(Morphlux, section 5.3): fence the victim; then program the fabric, let the survivors leave and
prepare the spare side by side; then form a new generation whose newcomer takes its state from its
ring predecessor. A circuit that goes dark between two living hosts is lit again instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from testbed.control.cards import SpliceOptions
from testbed.control.suspicion import Evidence
from testbed.control.words import (
    AgentLost,
    CarrierLost,
    Command,
    CommandFailed,
    Decide,
    Fence,
    Fenced,
    GiveUp,
    HeartbeatMissed,
    HostAnswered,
    HostSilent,
    Join,
    Leave,
    LinksGood,
    Observation,
    PrepareSpare,
    RankEnded,
    RankLeft,
    SetCircuits,
    Situation,
    SpareReady,
    StepDone,
    ValuesCorrupt,
)
from testbed.fabric.circuits import Matching
from testbed.fabric.topology import ring

Commands = tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Repair:
    """A recovery under way: who is replaced, if anybody, and what is done of it."""

    rank: int | None
    fenced: bool = False
    links_good: bool = False
    spare_ready: bool = False
    left: Mapping[int, int] = field(default_factory=dict)
    joined: bool = False
    finished: frozenset[int] = frozenset()

    @property
    def is_prepared(self) -> bool:
        """Tell whether a new generation could be formed, were all survivors out."""
        return self.links_good and (self.rank is None or (self.fenced and self.spare_ready))


@dataclass(frozen=True, slots=True)
class State:
    """A job under the policy: its situation, what was noticed, and the repair under way."""

    now: Situation
    evidence: Evidence
    repair: Repair | None = None
    gave_up: bool = False


class Splice:
    """The policy `splice`; see the module."""

    def __init__(self, options: SpliceOptions) -> None:
        self._probe_limit = options.probe

    def begin(self, situation: Situation) -> State:
        """Return the state for a job that runs undisturbed."""
        return State(situation, Evidence.none(self._ring(situation), self._probe_limit))

    def circuits(self, state: State) -> Matching:
        """Return the ring of the job's present hosts."""
        return self._ring(state.now)

    def is_recovering(self, state: State) -> bool:
        """Tell whether a repair is under way."""
        return state.repair is not None

    def step(self, state: State, observation: Observation) -> tuple[State, Commands]:
        """Return the next state and what to do."""
        if state.gave_up:
            return state, ()
        if state.repair is None:
            return self._watch(state, observation)
        return self._repair(state, state.repair, observation)

    # --- nothing is wrong yet ---------------------------------------------------------------

    def _watch(self, state: State, observation: Observation) -> tuple[State, Commands]:
        hosts = state.now.hosts
        match observation:
            case RankEnded(rank, code):
                because = f"rank {rank} ended with code {code}"
                return self._replace(state, rank, because, power=False)
            case HeartbeatMissed(rank):
                return self._replace(state, rank, f"rank {rank} was silent", power=False)
            case AgentLost(host) if host in hosts:
                because = f"the agent of {host} is gone"
                return self._replace(state, hosts.index(host), because, power=True)
            case AgentLost(host):
                return _without_spare(state, host), ()
            case ValuesCorrupt(rank, why):
                return self._give_up(state, f"rank {rank} found corrupt values: {why}")
            case CarrierLost() | HostAnswered() | HostSilent():
                return self._weigh(state, observation)
        return state, ()

    def _weigh(
        self, state: State, observation: CarrierLost | HostAnswered | HostSilent
    ) -> tuple[State, Commands]:
        evidence, probes = state.evidence.with_(observation)
        state = replace(state, evidence=evidence)
        if host := evidence.dead_host:
            because = f"{host} went dark and does not answer"
            return self._replace(state, state.now.hosts.index(host), because, power=True)
        if evidence.dark_between_living:
            return self._relight(state)
        return state, probes

    # --- deciding ---------------------------------------------------------------------------

    def _replace(
        self, state: State, rank: int, because: str, *, power: bool
    ) -> tuple[State, Commands]:
        victim = state.now.hosts[rank]
        if not state.now.spares:
            return self._give_up(state, f"{because}, and no spare host is left")
        spare = state.now.spares[0]
        state = replace(state, now=_spliced(state.now, rank, spare), repair=Repair(rank))
        return state, (Decide(because, victim, spare), Fence(rank, victim, power))

    def _relight(self, state: State) -> tuple[State, Commands]:
        dark = state.evidence.dark_between_living
        names = ", ".join(sorted(map(str, dark)))
        everybody = frozenset(range(len(state.now.hosts)))
        return replace(state, repair=Repair(None)), (
            Decide(f"{names} is dark between hosts that answer", names, names),
            SetCircuits(self._ring(state.now), dark),
            Leave(everybody, state.now.generation),
        )

    def _give_up(self, state: State, reason: str) -> tuple[State, Commands]:
        return replace(state, gave_up=True), (GiveUp(reason),)

    # --- a repair is under way --------------------------------------------------------------

    def _repair(
        self, state: State, repair: Repair, observation: Observation
    ) -> tuple[State, Commands]:
        match observation:
            case Fenced():
                return self._after_fence(state, replace(repair, fenced=True))
            case LinksGood():
                return self._join_when_ready(state, replace(repair, links_good=True))
            case SpareReady():
                return self._join_when_ready(state, replace(repair, spare_ready=True))
            case RankLeft(rank, committed):
                left = {**repair.left, rank: committed}
                return self._join_when_ready(state, replace(repair, left=left))
            case StepDone(rank, _) if repair.joined:
                return self._finish_when_all(state, repair, rank)
            case CommandFailed(reason, spare=True):
                return self._next_spare(state, repair, reason)
            case CommandFailed(reason):
                return self._give_up(state, reason)
            case AgentLost(host) if host in self._replacement(state, repair):
                return self._next_spare(state, repair, f"the agent of {host} is gone")
            case RankEnded(rank, code) if rank != repair.rank:
                return self._give_up(state, f"rank {rank} ended too, with code {code}")
            case ValuesCorrupt(rank, why):
                return self._give_up(state, f"rank {rank} found corrupt values: {why}")
        return state, ()

    def _after_fence(self, state: State, repair: Repair) -> tuple[State, Commands]:
        assert repair.rank is not None
        return replace(state, repair=repair), (
            *self._bring_in(state, repair.rank),
            Leave(self._survivors(state, repair), state.now.generation),
        )

    def _bring_in(self, state: State, rank: int) -> Commands:
        """Return what makes the host at a rank's place its new host."""
        wanted = self._ring(state.now)
        host = state.now.hosts[rank]
        fresh = frozenset(c for c in wanted if host in {end.host for end in c.ends})
        return SetCircuits(wanted, fresh, host), PrepareSpare(rank, host)

    def _next_spare(self, state: State, repair: Repair, reason: str) -> tuple[State, Commands]:
        if repair.rank is None or not state.now.spares:
            return self._give_up(state, f"{reason}, and no spare host is left")
        now = _spliced(state.now, repair.rank, state.now.spares[0])
        state = replace(state, now=now, repair=replace(repair, links_good=False, spare_ready=False))
        because = f"the spare failed: {reason}"
        decided = Decide(because, f"rank {repair.rank}", now.hosts[repair.rank])
        return state, (decided, *self._bring_in(state, repair.rank))

    def _join_when_ready(self, state: State, repair: Repair) -> tuple[State, Commands]:
        everybody_out = self._survivors(state, repair) <= repair.left.keys()
        if repair.joined or not (everybody_out and repair.is_prepared):
            return replace(state, repair=repair), ()
        now = replace(state.now, generation=state.now.generation + 1)
        restore = {} if repair.rank is None else {repair.rank: (repair.rank - 1) % len(now.hosts)}
        join = Join(now.generation, now.hosts, min(repair.left.values()), restore)
        return replace(state, now=now, repair=replace(repair, joined=True)), (join,)

    def _finish_when_all(self, state: State, repair: Repair, rank: int) -> tuple[State, Commands]:
        finished = repair.finished | {rank}
        if len(finished) < len(state.now.hosts):
            return replace(state, repair=replace(repair, finished=finished)), ()
        return self.begin(state.now), ()

    def _survivors(self, state: State, repair: Repair) -> frozenset[int]:
        return frozenset(range(len(state.now.hosts))) - {repair.rank}

    def _replacement(self, state: State, repair: Repair) -> tuple[str, ...]:
        return () if repair.rank is None else (state.now.hosts[repair.rank],)

    def _ring(self, situation: Situation) -> Matching:
        return ring(situation.hosts, situation.ports)


def _spliced(situation: Situation, rank: int, spare: str) -> Situation:
    hosts = (*situation.hosts[:rank], spare, *situation.hosts[rank + 1 :])
    spares = tuple(host for host in situation.spares if host != spare)
    return replace(situation, hosts=hosts, spares=spares)


def _without_spare(state: State, host: str) -> State:
    spares = tuple(spare for spare in state.now.spares if spare != host)
    return replace(state, now=replace(state.now, spares=spares))
