"""A small model of a rail: ranks that run stages, and a switch that takes its time.

Whatever may happen next is a move. A rank that has its circuits has traffic on them until it leaves
the stage.
"""

from dataclasses import dataclass, field, replace

from testbed.fabric.circuits import HostPort
from testbed.rails.rail import Move, RailState
from testbed.rails.requests import RailRequests, Requests
from testbed.rails.stage import Stage

MESH = {"pp0": (0, 2), "pp1": (1, 3), "dp0": (0, 1), "dp1": (2, 3), "world": (0, 1, 2, 3)}


def ports_of(ranks, each=2):
    return [
        tuple(HostPort(f"h{rank}", f"p{port}") for port in range(each)) for rank in range(ranks)
    ]


def stages_for(dimensions):
    """Return the stages of four ranks that use the groups of some dimensions in turn."""
    found = []
    for rank in range(4):
        own, counts = [], {}
        for dimension in dimensions:
            (name,) = (n for n, r in MESH.items() if n.startswith(dimension) and rank in r)
            own.append(Stage(name, counts.get(name, 0), MESH[name], counts.get(name, 0)))
            counts[name] = counts.get(name, 0) + 1
        found.append(tuple(own))
    return tuple(found)


@dataclass(frozen=True)
class World:
    at: tuple[int, ...]
    """The stage that each rank is in, or computes before."""
    doing: tuple[str, ...]
    """Of each rank: computes, waits, sends."""
    state: Requests = field(hash=False)
    lit: frozenset = frozenset()
    """The circuits that carry light."""
    moves: tuple[Move, ...] = ()
    answered: frozenset[Stage] = frozenset()
    wrong: str = ""


class RailModel:
    """The moves of a world, for ranks with given stages on one rail."""

    def __init__(self, stages, mode, rail):
        self.stages, self.mode = stages, mode
        self.requests = RailRequests(rail, mode)
        self.rail = rail

    def start(self):
        joined = {name: frozenset(ranks) for name, ranks in MESH.items()}
        ranks = len(self.stages)
        state = Requests(RailState(joined=joined))
        return World((0,) * ranks, ("computes",) * ranks, state)

    def reach(self, state, rank, stage):
        return self.requests.reach(state, 0.0, rank, stage)

    def leave(self, state, rank, following):
        return self.requests.leave(state, 0.0, rank, following)

    def ended(self, state, move):
        return self.requests.moved(state, 0.0, move.number)

    def wake_at(self, state):
        return self.requests.wake_at(state)

    def wake(self, state, due):
        return self.requests.wake(state, due)

    def moves(self, world):
        for rank, (at, doing) in enumerate(zip(world.at, world.doing, strict=True)):
            if at < len(self.stages[rank]) and doing == "computes":
                yield f"rank {rank} reaches {self.stages[rank][at]}", self._reached(world, rank)
            if doing == "sends":
                yield f"rank {rank} leaves {self.stages[rank][at]}", self._left(world, rank)
        for move in world.moves:
            yield f"change for {move.stage} ends", self._ended(world, move)
        due = self.wake_at(world.state)
        if due is not None:
            yield "timer", self._done(world, self.wake(world.state, due))

    def wrong(self, world):
        if world.wrong:
            return world.wrong
        is_over = all(at == len(own) for at, own in zip(world.at, self.stages, strict=True))
        if not is_over and not any(True for _ in self.moves(world)):
            return "deadlock: nothing can happen, and not all stages are over"
        return ""

    def _reached(self, world, rank):
        stage = self.stages[rank][world.at[rank]]
        doing = "sends" if stage in world.answered else "waits"
        world = replace(world, doing=_with(world.doing, rank, doing))
        return self._done(world, self.reach(world.state, rank, stage))

    def _left(self, world, rank):
        at = world.at[rank] + 1
        following = self.stages[rank][at] if at < len(self.stages[rank]) else None
        world = replace(
            world, at=_with(world.at, rank, at), doing=_with(world.doing, rank, "computes")
        )
        return self._done(world, self.leave(world.state, rank, following))

    def _ended(self, world, move):
        taken = {end for circuit in world.lit for end in circuit.ends}
        wrong = world.wrong
        if any(not taken.isdisjoint(circuit.ends) for circuit in move.add):
            wrong = f"unsafe: {move.stage} adds a circuit at a port that is in use"
        moves = tuple(each for each in world.moves if each != move)
        world = replace(world, moves=moves, lit=world.lit | move.add, wrong=wrong)
        return self._done(world, self.ended(world.state, move))

    def _done(self, world, outcome):
        """Carry out what follows: removals at once, additions when the change ends."""
        state, effects = outcome
        world = replace(world, state=state)
        for effect in effects:
            if isinstance(effect, Move):
                world = self._commanded(world, effect)
            else:
                world = self._answered(world, effect.stage)
        return world

    def _commanded(self, world, move):
        wrong = world.wrong
        for rank, doing in enumerate(world.doing):
            stage = self.stages[rank][world.at[rank]] if doing == "sends" else None
            if stage is not None and self.rail.circuits(stage) & move.remove:
                wrong = f"unsafe: a circuit goes while rank {rank} has traffic of {stage} on it"
        lit = world.lit - move.remove
        return replace(world, lit=lit, moves=(*world.moves, move), wrong=wrong)

    def _answered(self, world, stage):
        wrong = world.wrong
        if not self.rail.circuits(stage) <= world.lit:
            wrong = f"unsafe: {stage} is answered without its circuits"
        doing = tuple(
            "sends" if one == "waits" and self.stages[rank][world.at[rank]] == stage else one
            for rank, one in enumerate(world.doing)
        )
        return replace(world, doing=doing, answered=world.answered | {stage}, wrong=wrong)


def _with(row, at, value):
    return (*row[:at], value, *row[at + 1 :])
