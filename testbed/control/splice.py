"""The policy `splice`: a spare host replaces the victim in the ring by new circuits.

The order is LUMION's (arXiv 2505.23105) with the procedure of the same group's fault manager
(Morphlux, section 5.3): fence the victim, as the lab permits it; then program the fabric, let the
survivors leave and prepare the spare in parallel; then form a new generation whose newcomer takes
its state from its ring predecessor. A circuit that goes dark between two hosts that answer is made
again.

A spare that fails is followed by the next. A survivor that fails meanwhile is replaced too, in the
same recovery where the new generation is not ordered to form yet, else in the next one. Each fence
is followed by circuits for all newcomers, so what came of circuits commanded before it is dropped.
It ends when spares run out, or when no rank is left that has the state of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from testbed.control import protocol
from testbed.control.descriptors import SpliceOptions
from testbed.control.failure_detection import Commands, Evidence, HostFailure, HostObservation
from testbed.control.fence_order import fences
from testbed.control.policy import Situation
from testbed.control.repair import (
    Repair,
    Replacement,
    State,
    leave,
    next_repair,
    spliced,
    without_spare,
)
from testbed.fabric.circuits import Circuit


class Splice:
    """The policy `splice`; see the module."""

    def __init__(self, options: SpliceOptions) -> None:
        self._probe_limit = options.probe

    def begin(self, situation: Situation) -> State:
        """Return the policy's state for a job that runs without failures."""
        return State(situation, self._no_evidence(situation))

    def is_recovering(self, state: State) -> bool:
        """Tell whether a repair is in progress."""
        return state.repair is not None and not state.gave_up

    def step(self, state: State, observation: protocol.Observation) -> tuple[State, Commands]:
        """Return the policy's next state and the commands to carry out."""
        if state.gave_up:
            return state, ()
        match observation:
            case protocol.ValuesCorrupt(rank, why):
                return self._give_up(state, f"rank {rank} found corrupt values: {why}")
            case protocol.AgentLost(host) if host not in state.now.hosts:
                return without_spare(state, host), ()
        if state.repair is None or state.repair.joined:
            return self._watch(state, observation)
        return self._repair(state, state.repair, observation)

    # --- a generation is running, or has been ordered to form -------------------------------

    def _watch(self, state: State, observation: protocol.Observation) -> tuple[State, Commands]:
        match observation:
            case protocol.RankEnded(rank, code):
                return self._replace_rank(state, rank, f"rank {rank} ended with code {code}")
            case protocol.HeartbeatMissed(rank):
                return self._replace_rank(state, rank, f"rank {rank} was silent")
            case protocol.StepDone(rank, _) if state.repair is not None:
                return self._finish_when_all(state, state.repair, rank)
        if isinstance(observation, HostObservation):
            return self._judge(state, observation)
        return state, ()

    def _judge(self, state: State, observation: HostObservation) -> tuple[State, Commands]:
        """Act upon all that is known of hosts and circuits once something more is."""
        evidence, commands = state.evidence.after(observation)
        state = replace(state, evidence=evidence)
        while (failed := state.evidence.failed) and not state.gave_up:
            for one in failed:
                state, more = self._without_newcomer(without_spare(state, one.host), one)
                commands += more
            ranks = [(r, one) for one in failed for r in state.survivors_on(one.host)]
            state, more = self._replace(state, ranks) if not state.gave_up else (state, ())
            commands += more
        if state.gave_up:
            return state, commands
        if gone := state.evidence.inexplicable:
            return self._give_up(
                state, f"{' and '.join(gone)} do not answer: is the way to them broken?"
            )
        if dark := state.evidence.dark_between_answering_hosts:
            state, more = self._restore_circuits(state, dark)
            return state, commands + more
        return state, commands

    def _without_newcomer(self, state: State, failed: HostFailure) -> tuple[State, Commands]:
        """Have another spare take the place of a newcomer whose host, in use before, failed."""
        repair = next_repair(state.repair)
        rank = repair.newcomers(state.now).get(failed.host)
        if rank is None:
            return state, ()
        return self._next_spare(state, repair, rank, failed.because)

    # --- deciding ---------------------------------------------------------------------------

    def _replace_rank(self, state: State, rank: int, because: str) -> tuple[State, Commands]:
        failure = HostFailure(state.now.hosts[rank], "rank", because)
        return self._replace(state, ((rank, failure),))

    def _replace(
        self, state: State, failed: Sequence[tuple[int, HostFailure]]
    ) -> tuple[State, Commands]:
        """Have spares take the places of ranks, besides those that are being replaced already."""
        now, repair = state.now, next_repair(state.repair)
        commands: Commands = ()
        for rank, one in failed:
            permitted = fences(one.failure, now.fences[one.host])
            repair = repair.with_replacement(rank, Replacement(one.host, permitted[1:]))
            state = replace(state, victims=tuple(dict.fromkeys((*state.victims, one.host))))
            why, then = "", None
            if len(repair.restored) == len(now.hosts):
                why = "and no other rank holds its state"
            elif (then := spliced(now, rank)) is None:
                why = _no_spare(now)
            elif not permitted:
                why = f"and the lab permits no fence of {one.host}"
            if why or then is None:
                state, more = self._give_up(state, f"{state.together}{one.because}, {why}")
                return state, commands + more
            now = then
            decided = protocol.Decide(one.because, one.host, now.hosts[rank])
            commands += (decided, protocol.Fence(rank, one.host, permitted[0]))
        repair = replace(repair, links_good=False, failure=None)
        return self._among_survivors(state, now, repair), commands

    def _restore_circuits(self, state: State, dark: frozenset[Circuit]) -> tuple[State, Commands]:
        """Make circuits again, with those of newcomers if there are any."""
        repair = next_repair(state.repair)
        repair = replace(repair, dark=repair.dark | dark, links_good=False)
        state = self._among_survivors(state, state.now, repair)
        if not repair.is_fenced:
            return state, ()  # they are made with those of the newcomers
        names = ", ".join(sorted(map(str, dark)))
        because = f"{names} is dark between hosts that answer"
        state, made = self._set_circuits(state, repair)
        state, left = leave(state)
        return state, (protocol.Decide(because, names, names), *made, *left)

    def _among_survivors(self, state: State, now: Situation, repair: Repair) -> State:
        """Return the state in a repair: only survivors and what joins them can fail unnoticed."""
        newcomers = [now.hosts[rank] for rank in repair.replaced]
        victims = {one.victim for one in repair.replaced.values()}
        # One with another rank that goes on is observed still.
        gone = {host for host in victims if now.hosts.count(host) == newcomers.count(host)}
        evidence = state.evidence.without(gone, repair.dark)  # what is new is not in it yet
        return replace(state, now=now, repair=repair, evidence=evidence)

    def _give_up(self, state: State, reason: str) -> tuple[State, Commands]:
        return replace(state, gave_up=True), (protocol.GiveUp(reason),)

    # --- a repair is under way --------------------------------------------------------------

    def _repair(
        self, state: State, repair: Repair, observation: protocol.Observation
    ) -> tuple[State, Commands]:
        """Go on with a repair whose generation is not formed yet."""
        newcomers = repair.newcomers(state.now)
        match observation:
            case protocol.Fenced(host):
                return self._fenced(state, repair, host)
            case protocol.FenceFailed(host, reason):
                return self._next_fence(state, repair, host, reason)
            case protocol.RankLeft(rank, committed):
                left = {**repair.left, rank: committed}
                return self._join_when_ready(state, replace(repair, left=left))
            case protocol.HeartbeatMissed(rank) if rank not in repair.replaced:
                silent = repair.silent | {rank}
                return self._join_when_ready(state, replace(repair, silent=silent))
            case protocol.RankEnded(rank, code) if rank not in repair.replaced:
                return self._replace_rank(state, rank, f"rank {rank} ended with code {code}")
            case protocol.RankEnded(rank, code) if repair.replaced[rank].fenced:
                return self._next_spare(state, repair, rank, f"its rank ended with code {code}")
            case protocol.LinksGood(of, number) if self._is_present(state, of, number):
                return self._join_when_ready(state, replace(repair, links_good=True))
            case protocol.Superseded(of, number) if self._is_present(state, of, number):
                return self._set_circuits(state, repair) if repair.is_fenced else (state, ())
            case protocol.SpareReady(host) if not host or host in newcomers:
                return self._spare_ready(state, repair, newcomers.get(host))
            case protocol.CommandFailed(_, _, of, number) if self._is_present(state, of, number):
                return self._command_failed(state, repair, observation)
            case protocol.AgentLost(host) if host in newcomers and not state.survivors_on(host):
                because = f"the agent of {host} is gone"
                return self._next_spare(state, repair, newcomers[host], because)
        if isinstance(observation, HostObservation):
            return self._judge_failure(*self._judge(state, observation))
        return state, ()

    def _is_present(self, state: State, newcomer: str, number: int) -> bool:
        """Tell whether an outcome is of what was commanded last; unnumbered ones always are."""
        assert state.repair is not None
        is_known = not newcomer or newcomer in state.repair.newcomers(state.now)
        return is_known and number in (0, state.commanded)

    def _fenced(self, state: State, repair: Repair, host: str) -> tuple[State, Commands]:
        for rank, one in repair.replaced.items():
            if not one.fenced and host in ("", one.victim):
                repair = repair.with_replacement(rank, replace(one, fenced=True))
                state, added = self._add_spare(replace(state, repair=repair), repair, rank)
                state, left = leave(state)
                return state, (*added, *left)
        return state, ()

    def _next_fence(
        self, state: State, repair: Repair, host: str, reason: str
    ) -> tuple[State, Commands]:
        for rank, one in repair.replaced.items():
            if one.victim == host and not one.fenced:
                if not one.fences:
                    text = f"{host} may still take part, for no permitted fence came up: {reason}"
                    return self._give_up(state, text)
                means, *others = one.fences
                repair = repair.with_replacement(rank, replace(one, fences=tuple(others)))
                return replace(state, repair=repair), (protocol.Fence(rank, host, means),)
        return state, ()

    def _add_spare(self, state: State, repair: Repair, rank: int) -> tuple[State, Commands]:
        """Command what brings a host into a rank's place; no circuit before all are fenced."""
        made: Commands = ()
        host = state.now.hosts[rank]
        if repair.is_fenced:
            state, made = self._set_circuits(state, repair, host)
        return state, (*made, protocol.PrepareSpare(rank, host))

    def _set_circuits(
        self, state: State, repair: Repair, newcomer: str = ""
    ) -> tuple[State, Commands]:
        """Command the circuits of the next generation; all that are new to it are verified."""
        now, number = state.now, state.commanded + 1
        wanted = now.ring
        command = protocol.SetCircuits(wanted, wanted - repair.unchanged(now), newcomer, number)
        repair = replace(repair, links_good=False, failure=None)
        return replace(state, repair=repair, commanded=number), (command,)

    def _command_failed(
        self, state: State, repair: Repair, failed: protocol.CommandFailed
    ) -> tuple[State, Commands]:
        """Act upon a failure; one of circuits only once all survivors have answered after it."""
        if not failed.number:
            return self._take_failure(state, repair, failed)
        if not repair.is_fenced:
            return state, ()  # they are commanded again
        evidence, probes = state.evidence.probe_all()
        return replace(state, evidence=evidence, repair=replace(repair, failure=failed)), probes

    def _take_failure(
        self, state: State, repair: Repair, failed: protocol.CommandFailed
    ) -> tuple[State, Commands]:
        newcomers = repair.newcomers(state.now)
        if not failed.spare or not newcomers:
            return self._give_up(state, failed.reason)
        rank = newcomers.get(failed.newcomer, next(iter(newcomers.values())))
        return self._next_spare(state, repair, rank, failed.reason)

    def _judge_failure(self, state: State, commands: Commands) -> tuple[State, Commands]:
        """Act upon a failure that was put off, once all hosts that were probed have answered."""
        repair = state.repair
        if state.gave_up or repair is None or repair.failure is None or state.evidence.is_open:
            return state, commands
        state, more = self._take_failure(state, repair, repair.failure)
        return state, commands + more

    def _next_spare(
        self, state: State, repair: Repair, rank: int, reason: str
    ) -> tuple[State, Commands]:
        if (now := spliced(state.now, rank)) is None:
            return self._give_up(state, f"{state.together}{reason}, {_no_spare(state.now)}")
        one = replace(repair.replaced[rank], spare_ready=False)
        repair = replace(repair.with_replacement(rank, one), links_good=False, failure=None)
        state = replace(state, now=now, repair=repair)
        because = f"the spare failed: {reason}"
        decided = protocol.Decide(because, f"rank {rank}", state.now.hosts[rank])
        if not one.fenced:  # nothing is moved before that; then it is the new spare's turn
            return state, (decided,)
        state, added = self._add_spare(state, repair, rank)
        return state, (decided, *added)

    def _spare_ready(
        self, state: State, repair: Repair, rank: int | None
    ) -> tuple[State, Commands]:
        for known, one in repair.replaced.items():
            if rank == known or (rank is None and not one.spare_ready):
                ready = repair.with_replacement(known, replace(one, spare_ready=True))
                return self._join_when_ready(state, ready)
        return state, ()

    def _join_when_ready(self, state: State, repair: Repair) -> tuple[State, Commands]:
        state = replace(state, repair=repair)
        holders = repair.survivors(state.now) - repair.without_state
        if not repair.is_prepared:
            return state, ()
        if missing := holders - repair.left.keys():
            return self._replace_silent(state, missing) if missing <= repair.silent else (state, ())
        now = replace(state.now, generation=state.now.generation + 1)
        restore = {rank: (rank - 1) % len(now.hosts) for rank in sorted(repair.restored)}
        committed = min(repair.left[rank] for rank in holders)
        join = protocol.Join(now.generation, now.hosts, committed, restore)
        number = state.evidence.probe_number  # late answers to the probes until now do not count
        evidence = replace(self._no_evidence(now), probe_number=number)
        joined = replace(repair, joined=True)
        return replace(state, now=now, evidence=evidence, repair=joined), (join,)

    def _replace_silent(self, state: State, ranks: frozenset[int]) -> tuple[State, Commands]:
        """Replace ranks that missed their heartbeats, as all but these have left."""
        found = []
        for rank in sorted(ranks):
            reason = f"rank {rank} was silent and did not leave"
            found.append((rank, HostFailure(state.now.hosts[rank], "rank", reason)))
        return self._replace(state, found)

    def _finish_when_all(self, state: State, repair: Repair, rank: int) -> tuple[State, Commands]:
        finished = repair.finished | {rank}
        is_over = len(finished) == len(state.now.hosts)
        return replace(state, repair=None if is_over else replace(repair, finished=finished)), ()

    def _no_evidence(self, situation: Situation) -> Evidence:
        hosts = tuple(dict.fromkeys(situation.hosts))
        return Evidence(hosts, situation.ring, self._probe_limit)


def _no_spare(now: Situation) -> str:
    if not now.spares:
        return "and no spare host is left"
    return "and no spare host has free fibres to its neighbours"
