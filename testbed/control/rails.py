"""The controller of rails: re-point the circuits of each rail between the stages of an iteration.

Ranks join their groups; say when they have left a stage, and which comes next; and when they have
reached one. The circuits of a stage are requested then or earlier, as the mode says
(`testbed.rails.requests`), made when all its ranks are ready and nothing is on the circuits that
must go (`testbed.rails.rail`), and its ranks are told. Rails do not wait for each other.
"""

from __future__ import annotations

from dataclasses import replace

from testbed.control import protocol
from testbed.control.controller import (
    Command,
    CommandJob,
    JobObserved,
    JobView,
    MembershipChanged,
    Observation,
    Scope,
    TimerExpired,
    View,
)
from testbed.control.descriptors import RailsOptions
from testbed.control.rail_moves import (
    MoveRail,
    RailMoved,
    RailRefused,
    RecordAnswer,
    RecordDecision,
    RecordHeld,
)
from testbed.control.rail_state import State, Step, failed, gone, waiting_anew
from testbed.fabric.circuits import Circuit, Matching
from testbed.fabric.links import Link
from testbed.rails.rail import Effect, Move, Rail, RailState, WrongRequest
from testbed.rails.requests import Mode, Outcome, RailRequests, Requests
from testbed.rails.routing import Routing, routing_of
from testbed.rails.stage import Stage
from testbed.rails.weighing import decided

ATTEMPTS = 3
"""How often a change is commanded before the controller fails."""


class Rails:
    """The controller of the rails of one job; see the module.

    A rail is all ranks with one local index, as the job's hosts have them in rank order. Groups
    whose ranks are all on one rail are joined by circuits; all others need none.
    """

    def __init__(self, options: RailsOptions, job: str) -> None:
        self._job = job
        self._forward = options.forward
        self._mode: Mode = options.mode
        self._limit = options.limit
        self.scopes = (Scope("circuits", job),)

    def begin(self, view: View) -> State:
        """Return the state before any rank has joined; ValueError for groups of other ranks."""
        return self._begun(view.jobs[self._job], view.circuits)

    def circuits(self, view: View) -> tuple[Matching, ...]:
        """Return the circuits of each group, or of each of its matchings.

        Raise ValueError where there can be none: where ranks have too few ports, and for a group of
        several hosts and rails.
        """
        job, state = view.jobs[self._job], self.begin(view)
        own = state.routing.own
        if not own:
            raise ValueError("its ranks are in no group that is on one rail")
        for name, ranks in job.groups.items():
            if name not in own and len({job.hosts[rank] for rank in ranks}) > 1:
                raise ValueError(f"the ranks of group {name} are on several rails")
        found = []
        for name in own:
            whole = ((job.groups[name],),)
            for on in state.routing.rails(name):
                rail = state.rules[on].rail
                for together in job.matchings.get(name, whole):
                    each = [rail.circuits(Stage(name, 0, ranks)) for ranks in together]
                    found.append(frozenset[Circuit]().union(*each))
        return tuple(found)

    def _begun(self, job: JobView, lit: Matching) -> State:
        hosts = job.hosts
        local = [hosts[:rank].count(host) for rank, host in enumerate(hosts)]
        on: dict[str, dict[str, tuple[int, ...]]] = {}
        rail_of = {}
        for name, ranks in job.groups.items():
            if missing := sorted({*ranks} - {*range(len(hosts))}):
                raise ValueError(f"group {name} has rank {missing[0]}, which the job has not")
            rails = {local[rank] for rank in ranks}
            if len(ranks) > 1 and len(rails) == 1:
                rail_of[name] = f"rail{min(rails)}"
                on.setdefault(rail_of[name], {})[name] = ranks
        routing = Routing(rail_of)
        if self._forward:
            whole = {n: ranks for n, ranks in job.groups.items() if n not in job.matchings}
            routing = routing_of(whole, rail_of, hosts)
        for name, rail in routing.other.items():
            on[rail][name] = job.groups[name]
        rules, states = {}, {}
        for rail, groups in on.items():
            own = tuple(at if f"rail{local[n]}" == rail else () for n, at in enumerate(job.ports))
            at = {host: ports for host, ports in zip(hosts, own, strict=True) if ports}
            shared = tuple(at.get(host, ()) for host in hosts) if routing.other else ()
            known = {port for at in own for port in at}
            here = frozenset(circuit for circuit in lit if known.issuperset(circuit.ends))
            rules[rail] = RailRequests(Rail(own, groups, here, shared), self._mode)
            states[rail] = Requests(RailState(lit=here))
        return State(rules, states, routing, job.generation, is_recovered=job.is_recovered)

    def wake_at(self, state: State) -> float | None:
        """Return when a stage that is held back is due, or a rank has waited for too long."""
        if state.has_failed:
            return None
        due = [state.rules[rail].wake_at(own) for rail, own in state.rails.items()]
        times = [at for at in due if at is not None]
        waiting = (state.waiting, state.joining, state.dark.since)
        times += [since + self._limit for one in waiting for since in one.values()]
        return min(times, default=None)

    def step(self, state: State, now: float, observation: Observation) -> Step:
        """Return the next state, with changes to make, ranks to tell, or why it cannot go on."""
        if state.has_failed:
            return state, ()
        try:
            return self._stepped(state, now, observation)
        except WrongRequest as error:
            return failed(state, str(error))

    def _stepped(self, state: State, now: float, observation: Observation) -> Step:
        match observation:
            case JobObserved(job, what) if job == self._job:
                return self._heard(state, now, what)
            case RailMoved(rail, number) if (rail, number) in state.moves:
                own = state.rails[rail]
                outcome = state.rules[rail].moved(own, now, number)
                moves = {key: move for key, move in state.moves.items() if key != (rail, number)}
                took = now - own.begun[number]
                return self._done(replace(state, moves=moves), now, rail, outcome, took)
            case RailRefused(rail, number, reason) if (rail, number) in state.moves:
                return _refused(state, rail, number, reason)
            case MembershipChanged(job, view) if job == self._job:
                return self._replaced(state, view), ()
            case TimerExpired():
                return self._woken(state, now)
        return state, ()

    def _heard(self, state: State, now: float, what: protocol.Observation) -> Step:
        match what:
            case protocol.RankEnded(rank, code) if code and not state.is_recovered:
                return failed(state, f"rank {rank} ended with code {code}")
            case protocol.RankEnded(rank, code) if code:
                return waiting_anew(replace(state, ended={**state.ended, rank: code}), now), ()
            case protocol.HeartbeatMissed(rank):
                return waiting_anew(replace(state, silent=state.silent | {rank}), now), ()
            case protocol.AgentLost():
                return waiting_anew(state, now), ()
            case protocol.CarrierLost() | protocol.CarrierFound():
                return replace(state, dark=state.dark.after(what, now)), ()
            case protocol.GroupJoined() | protocol.StageLeft() | protocol.StageReached():
                if what.rank in state.silent:
                    state = replace(state, silent=state.silent - {what.rank})
        match what:
            case protocol.GroupJoined(rank, group):
                return self._joined(state, now, rank, group)
            case protocol.StageLeft(rank, following):
                return self._left(state, now, rank, following)
            case protocol.StageReached(rank, stage):
                return self._reached(state, now, rank, stage)
        return state, ()

    def _replaced(self, state: State, view: JobView) -> State:
        """Begin anew with other ranks, which join anew.

        What was lit between those that stay is; of changes under way nothing is known to be made.
        """
        lit = {circuit for own in state.rails.values() for circuit in own.rail.lit}
        begun = self._begun(view, frozenset(lit))
        rails = {
            name: replace(own, rail=replace(own.rail, commanded=before.rail.commanded))
            for name, own in begun.rails.items()
            if (before := state.rails.get(name)) is not None
        }
        return replace(begun, rails={**begun.rails, **rails})

    def _joined(self, state: State, now: float, rank: int, group: str) -> Step:
        whole = False
        for rail in state.routing.rails(group):
            own = state.rails[rail]
            joined, whole = state.rules[rail].rail.join(own.rail, rank, group)
            state = replace(state, rails={**state.rails, rail: replace(own, rail=joined)})
        if group not in state.routing.own:
            return state, ()  # it needs no circuits
        joining = {**state.joining, group: state.joining.get(group, now)}
        if not whole:
            return replace(state, joining=joining), ()
        del joining[group]
        message: dict[str, object] = {"do": "group-whole", "generation": state.generation}
        message |= {"group": group, "forwarded": group in state.routing.other}
        ranks = tuple(sorted(joined.joined[group]))
        told = CommandJob(self._job, protocol.Tell(ranks, message))
        return replace(state, joining=joining), (told,)

    def _left(self, state: State, now: float, rank: int, following: Stage | None) -> Step:
        """Have a rank leave what it uses; a rank that uses nothing has left it already."""
        state, commands = self._left_for(state, now, rank, following)
        if not state.routing.other:
            return state, commands
        rails, routing, decision = decided(state.rules, state.rails, state.routing)
        state = replace(state, rails=rails, routing=routing)
        if decision is None:
            return state, commands
        paths = {
            group: state.rules[over].rail.circuits(
                Stage(group, 0, state.rules[over].rail.ranks(group))
            )
            for group, over in routing.other.items()
        }
        return state, (*commands, RecordDecision(decision.forward, decision.costs, paths))

    def _left_for(self, state: State, now: float, rank: int, following: Stage | None) -> Step:
        using = [name for name, own in state.rails.items() if rank in own.rail.using]
        then = None
        if following is not None:
            state = replace(state, routing=state.routing.keeping(following))
            then = state.routing.rail(following)
        commands: tuple[Command, ...] = ()
        for rail in dict.fromkeys((*using, *([] if then is None else [then]))):
            coming = following if rail == then else None
            outcome = state.rules[rail].leave(state.rails[rail], now, rank, coming)
            state, more = self._done(state, now, rail, outcome)
            commands += more
            if coming is not None and (due := outcome[0].due.get(coming)) is not None:
                commands += (RecordHeld(rail, coming, due - now),)
        return state, commands

    def _reached(self, state: State, now: float, rank: int, stage: Stage) -> Step:
        state = replace(state, routing=state.routing.keeping(stage))
        rail = state.routing.rail(stage)
        if rail is None:
            return state, (self._told(state, stage, (rank,), []),)
        own = state.rails[rail].rail
        is_lit = own.using.get(rank) == stage and all(m.stage != stage for m in own.moves.values())
        if stage not in state.waiting and not is_lit:
            state = replace(state, waiting={**state.waiting, stage: now})
        outcome = state.rules[rail].reach(state.rails[rail], now, rank, stage)
        return self._done(state, now, rail, outcome)

    def _woken(self, state: State, now: float) -> Step:
        commands: tuple[Command, ...] = ()
        for rail, rules in state.rules.items():
            state, more = self._done(state, now, rail, rules.wake(state.rails[rail], now))
            commands += more
        late = [(since, self._who_is_absent(state, one)) for one, since in state.joining.items()]
        late += [(since, self._why_late(state, one)) for one, since in state.waiting.items()]
        for rail, rules in state.rules.items():
            late += state.dark.in_use(rules.rail, state.rails[rail].rail, self._limit)
        since, why = min(late, default=(now, ""))
        if not why or now < since + self._limit:
            return replace(state, dark=state.dark.looked_at(now, self._limit)), commands
        return failed(state, "; ".join((*gone(state), why)))

    def _who_is_absent(self, state: State, group: str) -> str:
        rail = state.routing.own[group]
        members = state.rules[rail].rail.members(group)
        absent = sorted(members - state.rails[rail].rail.joined[group])
        who = " and ".join(map(str, absent))
        return f"ranks have waited {self._limit:g} s for rank {who} to join group {group}"

    def _why_late(self, state: State, stage: Stage) -> str:
        rail = state.routing.rail(stage) or ""
        own = state.rails[rail]
        took = f"ranks have waited {self._limit:g} s for the circuits of {stage}"
        if any(move.stage == stage for move in own.rail.moves.values()):
            circuits = " and ".join(sorted(map(str, state.rules[rail].rail.circuits(stage))))
            return f"{took}, which were commanded: nothing has passed {circuits} yet"
        late = state.rules[rail].rail.late(own.rail, stage)
        using = [
            f"{own.rail.using[rank]} with rank {other}"
            for rank in late
            if rank in own.rail.using
            for other in own.rail.using[rank].ranks
            if other != rank
        ]
        still = f": it is in {' and '.join(using)}" if using else ""
        who = " and ".join(map(str, late))
        return f"{took}, and rank {who} has not asked for them or not left the stage before{still}"

    def _done(
        self, state: State, now: float, rail: str, outcome: Outcome, took: float = 0.0
    ) -> Step:
        """Return the state after something happened on a rail, and commands for its effects.

        `took` is how long the change took that was made, if any.
        """
        own, effects = outcome
        state = replace(state, rails={**state.rails, rail: own})
        commands: list[Command] = []
        for effect in effects:
            state, more = self._commanded(state, rail, effect, took)
            commands += more
        return state, tuple(commands)

    def _commanded(self, state: State, rail: str, effect: Effect, took: float) -> Step:
        if isinstance(effect, Move):
            moves = {**state.moves, (rail, effect.number): effect}
            return replace(state, moves=moves), (MoveRail(rail, effect),)
        waiting = {stage: at for stage, at in state.waiting.items() if stage != effect.stage}
        stage, links = effect.stage, state.rules[rail].rail.links(effect.stage)
        record = RecordAnswer(rail, stage, effect.changed, took if effect.changed else 0.0)
        told = self._told(state, stage, stage.ranks, links)
        if effect.changed:
            state = replace(state, dark=state.dark.without(state.rules[rail].rail.circuits(stage)))
        return replace(state, waiting=waiting), (told, record)

    def _told(
        self, state: State, stage: Stage, ranks: tuple[int, ...], links: list[Link]
    ) -> CommandJob:
        which = {"generation": state.generation, "group": stage.group, "ranks": stage.ranks}
        message = {"do": "stage-lit", **which, "number": stage.number, "links": links}
        return CommandJob(self._job, protocol.Tell(ranks, message))


def _refused(state: State, rail: str, number: int, reason: str) -> Step:
    """Command a change once more, or give up."""
    move, tried = state.moves[rail, number], state.attempts.get((rail, number), 1)
    if tried == ATTEMPTS:
        text = f"{ATTEMPTS} attempts to make the circuits of {move.stage} on {rail} failed"
        return failed(state, f"{text}: {reason}")
    attempts = {**state.attempts, (rail, number): tried + 1}
    return replace(state, attempts=attempts), (MoveRail(rail, move),)
