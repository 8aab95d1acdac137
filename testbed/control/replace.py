"""The policy `replace`: a spare host takes all ranks of a host that fails; it moves no circuit.

The order is that of `splice`: fence the victim, as the lab permits it; let the other ranks leave
while processes are prepared on the spare; form a new generation, in which each newcomer takes its
state from a rank with the same. Who owns the circuits of the job is told of the new membership, and
re-points them as ranks ask.

Circuits of such a job go dark all the time. Where one that has not been taken away goes dark, the
host at its other end is probed; so a host without power is found before its connection times out.
Where that port has light again the host lives, however late its answer is. A host that dies while
none of its ports has a circuit makes the job go quiet, and all hosts are probed then.

A spare that fails is followed by the next, and another host that fails before the new generation
is ordered to form is replaced in the same recovery. It ends when spares run out, or where no
neighbour of a newcomer among its replicas has the state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace as changed

from testbed.control import protocol
from testbed.control.descriptors import ReplaceOptions
from testbed.control.failure_detection import Commands, Evidence, HostFailure
from testbed.control.fence_order import fences
from testbed.control.policy import Situation
from testbed.control.replacement import (
    Fencing,
    Repair,
    State,
    moved,
    neighbours,
    source,
    with_newcomer,
)
from testbed.fabric.circuits import HostPort


class Replace:
    """The policy `replace`; see the module."""

    def __init__(self, options: ReplaceOptions) -> None:
        self._probe_limit, self.quiet = options.probe, options.quiet

    def begin(self, situation: Situation) -> State:
        """Return the policy's state; raise ValueError for ranks whose state no other host has."""
        situation = changed(situation, spares=tuple(dict.fromkeys(situation.spares)))
        hosts = situation.hosts
        for rank, host in enumerate(hosts):
            if all(hosts[other] == host for other in neighbours(situation, rank)):
                raise ValueError(
                    f"no rank on another host holds the state of rank {rank}, and replace "
                    "restores ranks from replicas on rails"
                )
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
                return _give_up(state, f"rank {rank} found corrupt values: {why}")
            case protocol.RankEnded(rank, code):
                return self._rank_failed(state, rank, f"rank {rank} ended with code {code}")
            case protocol.HeartbeatMissed(rank):
                return self._silent(state, rank)
            case protocol.CarrierLost(port):
                is_known = port.host in state.evidence.hosts
                return state, (protocol.NameFarEnd(port),) if is_known else ()
            case protocol.FarEndDark(port, host):
                return self._probe(changed(state, dark={**state.dark, port: host}), [host])
            case protocol.NothingHeard():
                return self._probe(state, state.evidence.hosts)
            case protocol.CarrierFound(port) if port in state.dark:
                return _lit_again(state, port), ()
            case protocol.HostSilent(host) if host in state.evidence.answered:
                return state, ()  # its answer is late, and nothing is wrong with it
            case protocol.AgentLost(host) if host in state.now.spares:
                spares = tuple(spare for spare in state.now.spares if spare != host)
                return changed(state, now=changed(state.now, spares=spares)), ()
            case protocol.AgentLost(host) if state.forming and host in state.forming.newcomers:
                gone = HostFailure(host, "unreachable", f"the agent of {host} is gone")
                return self._fail(state, [gone])
            case (
                protocol.AgentLost()
                | protocol.HostAnswered()
                | protocol.HostSilent()
                | protocol.HostOff()
            ):
                return self._judge(state, observation)
        if state.forming:
            return self._go_on(state, state.forming, observation)
        return _finished(state, observation), ()

    # --- failures ---------------------------------------------------------------------------

    def _probe(self, state: State, hosts: Collection[str]) -> tuple[State, Commands]:
        """Ask hosts whether they are there, unless they are being asked."""
        known = state.evidence
        evidence, probes = known.probe({*hosts}.intersection(known.hosts) - _asked(known))
        return changed(state, evidence=evidence), probes

    def _judge(self, state: State, observation: _OfHosts) -> tuple[State, Commands]:
        """Act upon all that is known of hosts once something more is."""
        evidence, commands = state.evidence.after(observation)
        state = changed(state, evidence=evidence)
        if failed := evidence.failed:
            state, more = self._fail(state, failed)
            return state, commands + more
        if gone := evidence.inexplicable:
            return _give_up(
                state, f"{' and '.join(gone)} do not answer: is the way to them broken?"
            )
        return state, commands

    def _silent(self, state: State, rank: int) -> tuple[State, Commands]:
        """Replace the host of a silent rank; one that is told to leave may do so yet."""
        repair = state.forming
        if repair is None or state.now.hosts[rank] in repair.newcomers:
            return self._rank_failed(state, rank, f"rank {rank} was silent")
        return self._join_when_ready(state, changed(repair, silent=repair.silent | {rank}))

    def _rank_failed(self, state: State, rank: int, because: str) -> tuple[State, Commands]:
        """Replace the host of a rank; one of a victim that is not fenced yet fails as expected."""
        host, repair = state.now.hosts[rank], state.present
        if host in repair.newcomers - repair.asked:
            return state, ()
        return self._fail(state, [HostFailure(host, "rank", because)])

    def _fail(self, state: State, failed: Iterable[HostFailure]) -> tuple[State, Commands]:
        """Decide which spares take the places of hosts; fence those that were in use."""
        repair, commands, because = state.present, tuple[protocol.Command, ...](), ""
        for one in failed:
            now, because = state.now, one.because
            is_spare = one.host in repair.newcomers
            permitted = fences(one.failure, now.fences[one.host])
            if not now.spares:
                return _give_up(state, f"{because}, and no spare host is left", commands)
            if not (permitted or is_spare):
                why = f"{because}, and the lab permits no fence of {one.host}"
                return _give_up(state, why, commands)
            spare = now.spares[0]
            told = f"the spare failed: {because}" if is_spare else because
            commands += (protocol.Decide(told, one.host, spare),)
            if not is_spare:
                ranks = tuple(r for r, host in enumerate(now.hosts) if host == one.host)
                fencing = Fencing(ranks, permitted[0], permitted[1:])
                repair = changed(repair, fencing={**repair.fencing, one.host: fencing})
                commands += (protocol.Fence(ranks[0], one.host, permitted[0]),)
            repair = with_newcomer(repair, one.host, spare)
            state = changed(state, now=moved(now, one.host, spare), repair=repair)
        restored = repair.restored(state.now)
        if any(source(state.now, restored, rank) is None for rank in restored):
            return _give_up(state, f"{because}, and no replica beside it holds its state", commands)
        stays = (host for host in state.now.hosts if host not in repair.newcomers)
        evidence = state.evidence.among(tuple(dict.fromkeys(stays)), frozenset())
        state, more = self._prepare(changed(state, evidence=evidence), repair)
        return state, commands + more

    # --- a repair is under way --------------------------------------------------------------

    def _go_on(
        self, state: State, repair: Repair, observation: protocol.Observation
    ) -> tuple[State, Commands]:
        """Go on with a repair whose generation is not formed yet."""
        match observation:
            case protocol.Fenced(host) if host in repair.fencing:
                return self._fenced(state, repair, host)
            case protocol.FenceFailed(host, reason) if host in repair.fencing:
                one = repair.fencing[host]
                if one.left:
                    return _fence(
                        state, repair, host, Fencing(one.ranks, one.left[0], one.left[1:])
                    )
                text = f"{host} may still take part, for no permitted fence came up: {reason}"
                return _give_up(state, text)
            case protocol.RankLeft(rank, committed):
                left = {**repair.left, rank: committed}
                return self._join_when_ready(state, changed(repair, left=left))
            case protocol.SpareReady(host) if host in repair.asked:
                ready = {**repair.ready, host: repair.ready.get(host, 0) + 1}
                return self._join_when_ready(state, changed(repair, ready=ready))
            case protocol.CommandFailed(reason, _, host) if host in repair.asked:
                return self._fail(state, [HostFailure(host, "rank", reason)])
            case protocol.CommandFailed(reason, spare=False):
                return _give_up(state, reason)
        return state, ()

    def _fenced(self, state: State, repair: Repair, host: str) -> tuple[State, Commands]:
        one = repair.fencing[host]
        one = changed(one, fenced=one.fenced + 1)
        if one.next_rank is not None:
            return _fence(state, repair, host, one)
        fencing = {name: other for name, other in repair.fencing.items() if name != host}
        return self._prepare(state, changed(repair, fencing=fencing))

    def _prepare(self, state: State, repair: Repair) -> tuple[State, Commands]:
        """Prepare spares and let survivors leave, once all hosts that failed are fenced."""
        state, now = changed(state, repair=repair), state.now
        if repair.fencing:
            return state, ()
        fresh, arriving = repair.newcomers - repair.asked, repair.arriving(now)
        commands: Commands = tuple(
            protocol.PrepareSpare(rank, now.hosts[rank])
            for rank in sorted(arriving)
            if now.hosts[rank] in fresh
        )
        if not repair.has_left:
            staying = frozenset(range(len(now.hosts))) - arriving
            commands += (protocol.Leave(staying, now.generation),)
        repair = changed(repair, asked=repair.newcomers, has_left=True)
        state, joined = self._join_when_ready(state, repair)
        return state, commands + joined

    def _join_when_ready(self, state: State, repair: Repair) -> tuple[State, Commands]:
        """Form the new generation once the newcomers are ready and all others have left."""
        state, now = changed(state, repair=repair), state.now
        arriving, restored = repair.arriving(now), repair.restored(now)
        missing = frozenset(range(len(now.hosts))) - arriving - repair.left.keys()
        if repair.fencing or sum(repair.ready.values()) < len(arriving):
            return state, ()
        if missing and missing <= repair.silent:
            reason = "its rank was silent and did not leave"
            hosts = dict.fromkeys(now.hosts[rank] for rank in sorted(missing))
            return self._fail(state, [HostFailure(host, "rank", reason) for host in hosts])
        if missing:
            return state, ()
        committed = min(repair.left[r] for r in range(len(now.hosts)) if r not in restored)
        found = {rank: source(now, restored, rank) for rank in sorted(restored)}
        restore = {rank: other for rank, other in found.items() if other is not None}
        now = changed(now, generation=now.generation + 1)
        joined = changed(repair, joined=True)
        number = state.evidence.probe_number  # late answers to the probes until now do not count
        evidence = changed(self._no_evidence(now), probe_number=number)
        state = State(now, evidence, repair=joined)
        return state, (protocol.Join(now.generation, now.hosts, committed, restore),)

    def _no_evidence(self, now: Situation) -> Evidence:
        return Evidence(tuple(dict.fromkeys(now.hosts)), frozenset(), self._probe_limit)


_OfHosts = protocol.AgentLost | protocol.HostAnswered | protocol.HostSilent | protocol.HostOff


def _asked(evidence: Evidence) -> frozenset[str]:
    return evidence.probed - evidence.answered


def _lit_again(state: State, port: HostPort) -> State:
    """Return the state once a port has light again: the host that was at its far end may live."""
    dark = {other: host for other, host in state.dark.items() if other != port}
    state, host = changed(state, dark=dark), state.dark[port]
    known = state.evidence.lost | state.evidence.off
    if host in known or host in dark.values():
        return state
    evidence, _ = state.evidence.after(protocol.HostAnswered(host))
    return changed(state, evidence=evidence)


def _fence(state: State, repair: Repair, host: str, one: Fencing) -> tuple[State, Commands]:
    """Fence the next rank of a host that failed."""
    assert one.next_rank is not None
    repair = changed(repair, fencing={**repair.fencing, host: one})
    return changed(state, repair=repair), (protocol.Fence(one.next_rank, host, one.means),)


def _finished(state: State, observation: protocol.Observation) -> State:
    """End the repair with the first step of the new generation that every rank has finished."""
    if state.repair is None or not isinstance(observation, protocol.StepDone):
        return state
    finished = state.repair.finished | {observation.rank}
    is_over = len(finished) == len(state.now.hosts)
    return changed(state, repair=None if is_over else changed(state.repair, finished=finished))


def _give_up(state: State, reason: str, before: Commands = ()) -> tuple[State, Commands]:
    return changed(state, gave_up=True), (*before, protocol.GiveUp(reason))
