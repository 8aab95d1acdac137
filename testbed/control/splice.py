"""Recovery by splicing: a spare host takes the victim's place in the ring, through the fabric.

The order is LUMION's (arXiv 2505.23105) with the procedure of the same group's fault manager
(Morphlux, section 5.3): fence the victim, as the lab permits it; then program the fabric, let the
survivors leave and prepare the spare side by side; then form a new generation whose newcomer takes
its state from its ring predecessor. A circuit that goes dark between two living hosts is lit again.

A spare that fails is followed by the next. A survivor that fails before the new generation is told
to form ends the recovery; one that fails later is replaced in its turn, as long as the state of the
model is still where it can be had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from testbed.control.descriptors import SpliceOptions
from testbed.control.failure_detection import Commands, Evidence, Seen
from testbed.control.fence_order import Failure, fences
from testbed.control.protocol import (
    AgentLost,
    CarrierLost,
    CommandFailed,
    Decide,
    Fence,
    Fenced,
    FenceFailed,
    GiveUp,
    HeartbeatMissed,
    HostAnswered,
    HostOff,
    HostSilent,
    Join,
    Leave,
    LinksGood,
    Means,
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


@dataclass(frozen=True, slots=True)
class Repair:
    """A recovery under way: who is replaced, if anybody, and what is done of it."""

    rank: int | None
    victim: str = ""
    fences: tuple[Means, ...] = ()
    """Those that are left to be tried, should the one that was commanded fail."""
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
        return State(situation, self._all_is_well(situation))

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
        if state.repair is None or state.repair.joined:
            return self._watch(state, observation)
        return self._repair(state, state.repair, observation)

    # --- a generation is running, or told to form -------------------------------------------

    def _watch(self, state: State, observation: Observation) -> tuple[State, Commands]:
        match observation:
            case RankEnded(rank, code):
                because = f"rank {rank} ended with code {code}"
                return self._replace(state, rank, because, "rank")
            case HeartbeatMissed(rank):
                return self._replace(state, rank, f"rank {rank} was silent", "rank")
            case AgentLost(host) if host not in state.now.hosts:
                return _without_spare(state, host), ()
            case ValuesCorrupt(rank, why):
                return self._give_up(state, f"rank {rank} found corrupt values: {why}")
            case StepDone(rank, _) if state.repair is not None:
                return self._finish_when_all(state, state.repair, rank)
            case CarrierLost() | HostAnswered() | HostSilent() | HostOff() | AgentLost():
                return self._weigh(state, observation)
        return state, ()

    def _weigh(self, state: State, observation: Seen) -> tuple[State, Commands]:
        evidence, probes = state.evidence.with_(observation)
        state = replace(state, evidence=evidence)
        if found := evidence.failed:
            rank = state.now.hosts.index(found.host)
            return self._replace(state, rank, found.because, found.failure)
        if len(evidence.unreachable) > 1:
            names = " and ".join(evidence.unreachable)
            return self._give_up(state, f"{names} do not answer: is the way to them broken?")
        if evidence.dark_between_living:
            return self._relight(state)
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
        spare, (first, *others) = state.now.spares[0], permitted
        repair = Repair(rank, victim, tuple(others))
        state = replace(state, now=_spliced(state.now, rank, spare), repair=repair)
        return state, (Decide(because, victim, spare), Fence(rank, victim, first))

    def _relight(self, state: State) -> tuple[State, Commands]:
        dark = state.evidence.dark_between_living
        names = ", ".join(sorted(map(str, dark)))
        because = f"{names} is dark between hosts that answer"
        if missing := _missing_state(state, None):
            return self._give_up(state, f"{because}, {missing}")
        everybody = frozenset(range(len(state.now.hosts)))
        return replace(state, repair=Repair(None)), (
            Decide(because, names, names),
            SetCircuits(self._ring(state.now), dark),
            Leave(everybody, state.now.generation),
        )

    def _give_up(self, state: State, reason: str) -> tuple[State, Commands]:
        return replace(state, gave_up=True), (GiveUp(reason),)

    # --- a repair is under way --------------------------------------------------------------

    def _repair(
        self, state: State, repair: Repair, observation: Observation
    ) -> tuple[State, Commands]:
        """Go on with a repair whose generation is not formed yet.

        Silence is not weighed meanwhile: ports are dark because they are being moved, and a host
        that starts a process is busy.
        """
        match observation:
            case Fenced() if not repair.fenced and repair.rank is not None:
                return self._after_fence(state, replace(repair, fenced=True), repair.rank)
            case FenceFailed(host, reason) if host == repair.victim and not repair.fenced:
                return self._next_fence(state, repair, reason)
            case RankLeft(rank, committed):
                left = {**repair.left, rank: committed}
                return self._join_when_ready(state, replace(repair, left=left))
            case AgentLost(host) if host not in state.now.hosts:
                return _without_spare(state, host), ()
            case RankEnded(rank, code) if rank != repair.rank:
                return self._give_up(state, f"rank {rank} ended too, with code {code}")
            case ValuesCorrupt(rank, why):
                return self._give_up(state, f"rank {rank} found corrupt values: {why}")
        return self._repair_with(state, repair, observation)

    def _repair_with(
        self, state: State, repair: Repair, observation: Observation
    ) -> tuple[State, Commands]:
        """Take what is said of the newcomer, and what came of commands."""
        newcomer = "" if repair.rank is None else state.now.hosts[repair.rank]
        present = ("", newcomer)
        match observation:
            case LinksGood(of) if of in present:
                return self._join_when_ready(state, replace(repair, links_good=True))
            case SpareReady(of) if of in present:
                return self._join_when_ready(state, replace(repair, spare_ready=True))
            case CommandFailed(reason, spare=True, newcomer=of) if of in present:
                return self._next_spare(state, repair, reason)
            case CommandFailed(reason, spare=False):
                return self._give_up(state, reason)
            case AgentLost(host) if host == newcomer:
                return self._next_spare(state, repair, f"the agent of {host} is gone")
            case AgentLost(host):
                return self._give_up(state, f"the agent of {host} is gone too")
            case RankEnded(_, code) if repair.fenced:
                return self._next_spare(state, repair, f"its rank ended with code {code}")
        return state, ()

    def _next_fence(self, state: State, repair: Repair, reason: str) -> tuple[State, Commands]:
        if repair.rank is None or not repair.fences:
            text = f"{repair.victim} may still take part, for no permitted fence came up: {reason}"
            return self._give_up(state, text)
        means, *others = repair.fences
        state = replace(state, repair=replace(repair, fences=tuple(others)))
        return state, (Fence(repair.rank, repair.victim, means),)

    def _after_fence(self, state: State, repair: Repair, rank: int) -> tuple[State, Commands]:
        return replace(state, repair=repair), (
            *self._bring_in(state, rank),
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
        # Before the fence is up nothing is moved; then it is the new spare that is brought in.
        return state, (decided, *(self._bring_in(state, repair.rank) if repair.fenced else ()))

    def _join_when_ready(self, state: State, repair: Repair) -> tuple[State, Commands]:
        survivors = self._survivors(state, repair)
        if not (survivors <= repair.left.keys() and repair.is_prepared):
            return replace(state, repair=repair), ()
        now = replace(state.now, generation=state.now.generation + 1)
        restore = {} if repair.rank is None else {repair.rank: (repair.rank - 1) % len(now.hosts)}
        join = Join(now.generation, now.hosts, min(repair.left[r] for r in survivors), restore)
        return State(now, self._all_is_well(now), replace(repair, joined=True)), (join,)

    def _finish_when_all(self, state: State, repair: Repair, rank: int) -> tuple[State, Commands]:
        finished = repair.finished | {rank}
        if len(finished) < len(state.now.hosts):
            return replace(state, repair=replace(repair, finished=finished)), ()
        return replace(state, repair=None), ()

    def _survivors(self, state: State, repair: Repair) -> frozenset[int]:
        return frozenset(range(len(state.now.hosts))) - {repair.rank}

    def _all_is_well(self, situation: Situation) -> Evidence:
        return Evidence.none(situation.hosts, self._ring(situation), self._probe_limit)

    def _ring(self, situation: Situation) -> Matching:
        return ring(situation.hosts, situation.ports)


def _spliced(situation: Situation, rank: int, spare: str) -> Situation:
    hosts = (*situation.hosts[:rank], spare, *situation.hosts[rank + 1 :])
    spares = tuple(host for host in situation.spares if host != spare)
    return replace(situation, hosts=hosts, spares=spares)


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
