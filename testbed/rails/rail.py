"""The circuits of one rail: who has asked for which, and what may move when.

A stage's circuits are made when all its ranks are ready for them. Nothing is removed while a rank
at either end has traffic on it: a rank uses the circuits of a stage from when they are commanded
until it leaves the stage, and a circuit goes only when both its ranks have left. Circuits that are
lit already take no change; what a change does not need to remove stays. Changes go on side by side.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from testbed.fabric.circuits import Circuit, HostPort, Matching
from testbed.fabric.links import Link
from testbed.rails.stage import RankPorts, Stage, circuits_of


class WrongRequest(ValueError):
    """A rank asked for what it cannot have; the text names the rank and the stage."""


@dataclass(frozen=True, slots=True)
class Move:
    """A change of circuits for a stage; `number` counts the changes of the rail.

    What it removes is gone before the next change of the rail begins; what it adds may take its
    time beside others, for no rank is in two stages and no port in two circuits that are added.
    """

    number: int
    stage: Stage
    remove: Matching
    add: Matching


@dataclass(frozen=True, slots=True)
class Answer:
    """The circuits of a stage are lit: its ranks may go on."""

    stage: Stage
    changed: bool
    """A change was needed for it."""


Effect = Move | Answer


@dataclass(frozen=True, slots=True)
class RailState:
    """Requests, circuits and changes of a rail; immutable."""

    lit: Matching = frozenset()
    """Circuits that are made and are not being removed."""
    joined: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The ranks of each group that have joined."""
    ready: Mapping[Stage, frozenset[int]] = field(default_factory=dict)
    """The ranks that are ready for a stage whose circuits are not yet commanded, in the order in
    which the stages were first asked for."""
    using: Mapping[int, Stage] = field(default_factory=dict)
    """The stage whose circuits a rank may have traffic on."""
    moves: Mapping[int, Move] = field(default_factory=dict)
    """Changes under way, by number."""
    last: Mapping[tuple[int, str, tuple[int, ...]], int] = field(default_factory=dict)
    """By rank, group and ranks of a stage, the number of the last one that the rank was ready for;
    numbers grow."""
    held: frozenset[Stage] = frozenset()
    """Stages that are held back although all their ranks may be ready."""
    commanded: int = 0
    """How many changes have been commanded."""


class Rail:
    """The rules of one rail; each method returns the next state and what follows from it."""

    def __init__(
        self,
        ports: RankPorts,
        groups: Mapping[str, tuple[int, ...]],
        lit: Matching = frozenset(),
        shared: RankPorts = (),
    ) -> None:
        """Take the fabric ports of the ranks on this rail, and the ranks of each group on it.

        Where what is `lit` to begin with joins the ranks of all groups at once, groups use that,
        and no stage needs a change. `shared` has, of all ranks, the ports of the rank on this rail
        that is on the same host: groups of ranks on other rails that are forwarded here use them,
        too.
        """
        self._ports = shared or ports
        self._groups = groups
        self._members = {name: frozenset(ranks) for name, ranks in groups.items()}
        self._end_at = {p: (rank, n) for rank, own in enumerate(ports) for n, p in enumerate(own)}
        self._circuits: dict[tuple[str, tuple[int, ...]], Matching] = {}
        pairs = {pair for ranks in groups.values() for pair in neighbours(ranks)}
        joined = frozenset(map(self._ranks, lit))
        self._standing = lit if pairs <= joined else frozenset()

    def members(self, group: str) -> frozenset[int]:
        """Return the ranks of a group."""
        return self._members[group]

    def ranks(self, group: str) -> tuple[int, ...]:
        """Return the ranks of a group, in its order."""
        return self._groups[group]

    def join(self, state: RailState, rank: int, group: str) -> tuple[RailState, bool]:
        """Have a rank join a group, and tell whether all of it have joined now.

        Raise WrongRequest for a group that it is not in, or has joined.
        """
        members, known = self._groups.get(group, ()), state.joined.get(group, frozenset())
        if rank not in members:
            raise WrongRequest(f"rank {rank} is not in group {group}")
        if rank in known:
            raise WrongRequest(f"rank {rank} has joined group {group} already")
        known |= {rank}
        return replace(state, joined={**state.joined, group: known}), len(known) == len(members)

    def ready(
        self, state: RailState, rank: int, stage: Stage
    ) -> tuple[RailState, tuple[Effect, ...]]:
        """Have a rank be ready for a stage, which ends its traffic in the stage before.

        Raise WrongRequest for a stage that it has no part in, one that does not come after its last
        in the group, a group that not all have joined, and a second stage at once.
        """
        self._check(state, rank, stage)
        ready = {**state.ready, stage: state.ready.get(stage, frozenset()) | {rank}}
        last = {**state.last, (rank, stage.group, stage.ranks): stage.number}
        return self._served(replace(_left(state, rank), ready=ready, last=last))

    def leave(self, state: RailState, rank: int) -> tuple[RailState, tuple[Effect, ...]]:
        """Have a rank end its traffic in the stage that it is in."""
        return self._served(_left(state, rank))

    def moved(self, state: RailState, number: int) -> tuple[RailState, tuple[Effect, ...]]:
        """Have a change end: its circuits are lit, and the ranks of its stage are answered."""
        move = state.moves[number]
        others = {n: each for n, each in state.moves.items() if n != number}
        state = replace(state, moves=others, lit=state.lit | move.add)
        state, effects = self._served(state)
        return state, (Answer(move.stage, True), *effects)

    def hold(
        self, state: RailState, held: Collection[Stage]
    ) -> tuple[RailState, tuple[Effect, ...]]:
        """Hold back stages, though all their ranks are ready, and no others."""
        return self._served(replace(state, held=frozenset(held)))

    def is_complete(self, state: RailState, stage: Stage) -> bool:
        """Tell whether all ranks of a stage are ready for it."""
        return len(state.ready.get(stage, ())) == len(stage.ranks)

    def late(self, state: RailState, stage: Stage) -> tuple[int, ...]:
        """Return the ranks that a stage waits for: not yet ready, or not yet done with another."""
        missing = tuple(rank for rank in stage.ranks if rank not in state.ready.get(stage, ()))
        if missing:
            return missing
        wanted = self.circuits(stage)
        return tuple(sorted(self._users(state, _in_the_way(_by_port(state.lit), wanted))))

    def circuits(self, stage: Stage) -> Matching:
        """Return the circuits that a stage needs."""
        key = stage.group, stage.ranks
        if key not in self._circuits:
            pairs = neighbours(stage.ranks)
            self._circuits[key] = (
                frozenset(each for each in self._standing if self._ranks(each) in pairs)
                if self._standing
                else circuits_of(stage, self._groups[stage.group], self._ports)
            )
        return self._circuits[key]

    def links(self, stage: Stage) -> list[Link]:
        """Return which ports of which ranks the circuits of a stage join, in order.

        Of a stage that is forwarded they are those of other ranks, on the same hosts.
        """
        ends = [sorted(self._end_at[end] for end in c.ends) for c in self.circuits(stage)]
        return sorted((one, other) for one, other in ends)

    def ends(self, stage: Stage, rank: int) -> list[HostPort]:
        """Return the ports of a rank that a stage uses."""
        ends = (end for circuit in self.circuits(stage) for end in circuit.ends)
        return [end for end in ends if end in self._ports[rank]]

    # --- inside -------------------------------------------------------------------------------

    def _ranks(self, circuit: Circuit) -> frozenset[int]:
        """Return the ranks that a circuit joins."""
        return frozenset(self._end_at[end][0] for end in circuit.ends)

    def _check(self, state: RailState, rank: int, stage: Stage) -> None:
        if not self._members.get(stage.group, frozenset()).issuperset(stage.ranks):
            raise WrongRequest(f"rank {rank} asks for {stage} of ranks that are not in the group")
        if rank not in stage.ranks:
            raise WrongRequest(f"rank {rank} asks for {stage}, in which it has no part")
        joined = state.joined.get(stage.group, frozenset())
        if not joined.issuperset(stage.ranks):
            absent = min({*stage.ranks} - joined)
            raise WrongRequest(f"rank {rank} asks for {stage} before rank {absent} has joined")
        last = state.last.get((rank, stage.group, stage.ranks), -1)
        if stage.number <= last:
            raise WrongRequest(f"rank {rank} asks for {stage} after {stage.group} {last}")
        for other, ranks in state.ready.items():
            if rank in ranks:
                raise WrongRequest(f"rank {rank} asks for {stage} while it waits for {other}")

    def _served(self, state: RailState) -> tuple[RailState, tuple[Effect, ...]]:
        """Command or answer every complete stage that nothing keeps waiting.

        One may overtake another: what both remove is removed once, and no rank waits for two. What
        is being made at a port is waited for: where traffic is forwarded, other ranks use it, too.
        """
        effects: list[Effect] = []
        for stage in tuple(state.ready):
            if not self.is_complete(state, stage) or stage in state.held:
                continue
            wanted = self.circuits(stage)
            remove = _in_the_way(_by_port(state.lit), wanted)
            if _are_made(state, wanted):
                continue
            if self._users(state, remove):
                continue
            state, effect = _begun(state, stage, remove, wanted - state.lit)
            effects.append(effect)
        return state, tuple(effects)

    def _users(self, state: RailState, circuits: Matching) -> set[int]:
        """Return the ranks that may have traffic on circuits."""
        return {
            rank
            for rank, stage in state.using.items()
            for circuit in self.circuits(stage) & circuits
            if any(end in self._ports[rank] for end in circuit.ends)
        }


def neighbours(ranks: Sequence[int]) -> set[frozenset[int]]:
    """Return which of the ranks of a group its ring joins with each other."""
    return {frozenset(pair) for pair in zip(ranks, (*ranks[1:], *ranks[:1]), strict=True)}


def _left(state: RailState, rank: int) -> RailState:
    if rank not in state.using:
        return state
    return replace(state, using={who: own for who, own in state.using.items() if who != rank})


def _by_port(lit: Matching) -> dict[HostPort, Circuit]:
    return {end: circuit for circuit in lit for end in circuit.ends}


def _are_made(state: RailState, wanted: Matching) -> bool:
    """Tell whether a circuit is being made at a port of those that are wanted."""
    ends = {end for circuit in wanted for end in circuit.ends}
    made = (end for move in state.moves.values() for circuit in move.add for end in circuit.ends)
    return not ends.isdisjoint(made)


def _in_the_way(at: Mapping[HostPort, Circuit], wanted: Matching) -> Matching:
    """Return the lit circuits, by port, that share one with circuits that are wanted, not lit."""
    ends = (end for circuit in wanted for end in circuit.ends)
    return frozenset(at[end] for end in ends if end in at) - wanted


def _begun(
    state: RailState, stage: Stage, remove: Matching, add: Matching
) -> tuple[RailState, Effect]:
    """Return the state with a stage's circuits commanded or, where they are lit, answered."""
    ready = {each: ranks for each, ranks in state.ready.items() if each != stage}
    using = {**state.using, **dict.fromkeys(stage.ranks, stage)}
    state = replace(state, ready=ready, using=using)
    if not add:
        return state, Answer(stage, False)
    move = Move(state.commanded, stage, remove, add)
    moves = {**state.moves, move.number: move}
    return replace(state, lit=state.lit - remove, moves=moves, commanded=move.number + 1), move
