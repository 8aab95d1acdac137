"""One rail in a replay: its requests, the changes of its switch, and the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from testbed.fabric.circuits import HostPort
from testbed.rails.profile import ControlCost
from testbed.rails.rail import Effect, Move
from testbed.rails.requests import Mode, Outcome, RailRequests, Requests
from testbed.rails.stage import Stage


@dataclass(frozen=True, slots=True)
class Rails:
    """The rails of a replay: ports of a rank, the delay of a change, how changes are requested."""

    delay: float = 0.0
    """Seconds from the command for a change until its circuits carry data."""
    mode: Mode = "on-demand"
    ports: int = 2
    """Fabric ports of each rank."""
    one_at_a_time: bool = False
    """The switch of a rail makes one change after the other."""
    forward: bool = False
    """`learned` may forward over other rails instead, for good, where that is cheaper by the model
    of `testbed.rails.forwarding`."""


Left = tuple[int, Stage]
"""A rank, and a stage that it has left."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of circuits in a replay, with the window in which it could be hidden."""

    stage: Stage
    rail: str
    iteration: int
    left: float
    """When the last rank had left the stages that the change takes circuits from."""
    reached: float
    """When the last rank of the stage had reached it."""
    commanded: float
    answered: float
    after: frozenset[Left] = frozenset()
    """The stages that ranks had to leave before."""

    @property
    def window(self) -> float:
        """Return the seconds that the change could take without anybody waiting."""
        return max(0.0, self.reached - self.left)

    @property
    def stall(self) -> float:
        """Return the seconds that the stage's ranks, all there, waited for it."""
        return max(0.0, self.answered - self.reached)


class RailReplay:
    """A rail; `at` has something happen at a time, `answer` tells a stage's ranks to go on."""

    def __init__(
        self,
        name: str,
        requests: RailRequests,
        state: Requests,
        rails: Rails,
        control: ControlCost,
        at: Callable[[float, Callable[[float], None]], None],
        answer: Callable[[Stage], None],
    ) -> None:
        self._name, self._requests, self._state = name, requests, state
        self._rails, self._control = rails, control
        self._at, self._answer = at, answer
        self._free = 0.0
        """When the switch has made all changes that it was commanded."""
        self._wakes: float | None = None
        self._left: dict[int, tuple[float, Left]] = {}
        """When each rank left its last stage; `_freed`, when a rank last did one at each port."""
        self._freed: dict[HostPort, tuple[float, Left]] = {}
        self._reached: dict[Stage, tuple[float, int]] = {}
        self._moves: list[tuple[Move, list[tuple[float, Left]], float, float]] = []
        """Each change: what ranks had left before and when, its command, its answer."""

    def reach(self, now: float, rank: int, stage: Stage, iteration: int) -> None:
        """Have a rank reach a stage."""
        self._reached[stage] = now, iteration
        self._do(now, self._requests.reach(self._state, now, rank, stage))

    def leave(self, now: float, rank: int, following: Stage | None) -> None:
        """Have a rank leave its stage for the following one."""
        stage = self._state.rail.using[rank]
        self._left[rank] = now, (rank, stage)
        for end in self._requests.rail.ends(stage, rank):
            self._freed[end] = now, (rank, stage)
        self._do(now, self._requests.leave(self._state, now, rank, following))

    def expect(self, now: float, rank: int, following: Stage) -> None:
        """Have a rank know which stage comes next here, as it leaves one on another rail."""
        self._do(now, self._requests.leave(self._state, now, rank, following))

    def changes(self) -> Iterator[Change]:
        """Yield the changes whose stage was reached, in the order of their commands."""
        for move, left, commanded, answered in self._moves:
            reached, iteration = self._reached[move.stage]
            last = max((at for at, _ in left), default=0.0)
            after = frozenset(what for _, what in left)
            yield Change(
                move.stage, self._name, iteration, last, reached, commanded, answered, after
            )

    def _do(self, now: float, outcome: Outcome) -> None:
        self._state, effects = outcome
        for effect in effects:
            self._carry_out(now, effect)
        due = self._requests.wake_at(self._state)
        if due is not None and due != self._wakes:
            self._at(max(due, now), self._wake)
        self._wakes = due

    def _carry_out(self, now: float, effect: Effect) -> None:
        if not isinstance(effect, Move):
            wait = 0.0 if effect.changed else self._control.answer
            self._at(now + wait, lambda _: self._answer(effect.stage))
            return
        begin = max(now, self._free) if self._rails.one_at_a_time else now
        self._free = begin + self._rails.delay
        answered = self._free + self._control.change
        self._moves.append((effect, self._all_left(effect), now, answered))
        self._at(answered, partial(self._moved, effect.number))

    def _moved(self, number: int, now: float) -> None:
        self._do(now, self._requests.moved(self._state, now, number))

    def _wake(self, now: float) -> None:
        self._do(now, self._requests.wake(self._state, now))

    def _all_left(self, move: Move) -> list[tuple[float, Left]]:
        """Return what the ranks of a change had to leave, and those whose circuits it removes."""
        ends = (end for circuit in move.remove for end in circuit.ends)
        ranks = (self._left.get(rank) for rank in move.stage.ranks)
        circuits = (self._freed.get(end) for end in ends)
        return [one for one in (*ranks, *circuits) if one is not None]
