"""A breadth-first search through all orders of events, for the shortest one that goes wrong."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Explored:
    """How many states were reached, and the shortest order of events that leads to a wrong one."""

    states: int
    wrong: str = ""
    trace: tuple[str, ...] = ()


def explore(
    start: State,
    moves: Callable[[State], Iterable[tuple[str, State]]],
    wrong: Callable[[State], str],
    depth: int,
) -> Explored:
    """Return what is reached in at most `depth` moves; stop at the first state that is wrong.

    `moves` yields every event that may come next, by name, with the state after it; `wrong` says
    what a state violates, or nothing. States that are equal are gone on from once.
    """
    before: dict[State, tuple[State, str] | None] = {start: None}
    level = [start]
    for distance in range(depth + 1):
        reached = []
        for state in level:
            if reason := wrong(state):
                return Explored(len(before), reason, _trace(before, state))
            if distance == depth:
                continue
            for name, after in moves(state):
                if after not in before:
                    before[after] = state, name
                    reached.append(after)
        level = reached
    return Explored(len(before))


def _trace(before, state):
    names = []
    while (step := before[state]) is not None:
        state, name = step
        names.append(name)
    return tuple(reversed(names))
