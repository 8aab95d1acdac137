"""Which of the experiments that wait for parts of a lab start now.

Experiments are jobs and the parts of a lab (hosts, ports, outlets) their clients. Each experiment
needs a certain set of parts, all at once. A policy says in which order they are looked at; whatever
it says, an experiment starts only when all its parts are free, and one that has waited for long is
given a reservation, so that none waits for ever. Pure: instants are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

PATIENCE = 4 * 3600.0
"""Seconds after which the experiment that has waited longest comes first, under any policy."""


@dataclass(frozen=True, slots=True)
class Move:
    """A user's wish that overrules the policy: first, last, or right before another experiment."""

    to: Literal["first", "last", "before"]
    at: float
    """When it was wished; later moves are applied after earlier ones."""
    other: str = ""
    """Before whom; first if that one waits no more."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An experiment that waits for parts of a lab; times in seconds."""

    name: str
    needs: int
    """A set of parts: each part is one bit."""
    arrived: float
    expected: float
    """How long it is expected to hold its parts."""
    draw: float = 0.0
    """Uniform in [0, 1), drawn on arrival."""
    move: Move | None = None


@dataclass(frozen=True, slots=True)
class Busy:
    """Parts that are held until about `ends`; an instant that has passed means at any moment."""

    needs: int
    ends: float


Order = Callable[[Sequence[Waiting], Sequence[Busy], float], list[Waiting]]
"""Returns the order in which experiments are looked at: those that wait, what is busy, and now."""


@dataclass(frozen=True, slots=True)
class LabPolicy:
    """A policy of a lab's queue."""

    order: Order
    patience: float = PATIENCE
    """Seconds after which the experiment that has waited longest is given a reservation."""


@dataclass(frozen=True, slots=True)
class Line:
    """The experiments that wait, in the order in which they are looked at."""

    entries: list[Waiting]
    reserved: Waiting | None = None
    """The first of them, if nothing may start that would delay it."""


def line_up(
    waiting: Sequence[Waiting], busy: Sequence[Busy], now: float, policy: LabPolicy
) -> Line:
    """Return the order of a queue: one that has waited for long, then by policy, then moves."""
    movable = [one for one in waiting if one.move is None or one.move.to != "last"]
    oldest = min(movable, key=lambda one: (one.arrived, one.name), default=None)
    due = oldest is not None and now - oldest.arrived >= policy.patience
    first = [oldest] if due and oldest is not None else []
    rest = [one for one in waiting if one not in first]
    order = _moved([*first, *policy.order(rest, [*busy, *_held_by(first, now)], now)])
    has_place = bool(order) and (order[0] in first or order[0].move is not None)
    return Line(order, order[0] if has_place else None)


def starting(line: Line, busy: Iterable[Busy], now: float) -> list[Waiting]:
    """Return the experiments that start now.

    In the order of the line each starts whose parts are free, unless it would be expected to hold a
    part when the one with the reservation could have it.
    """
    held = list(busy)
    taken = _union(held)
    kept, since = 0, 0.0
    found: list[Waiting] = []
    for one in line.entries:
        if one.needs & taken:
            if one is line.reserved:
                kept = one.needs
                since = max(max(b.ends, now) for b in held if b.needs & kept)
        elif not (one.needs & kept and now + one.expected > since):
            taken |= one.needs
            held.append(Busy(one.needs, now + one.expected))
            found.append(one)
    return found


def planned_end(order: Sequence[Waiting], busy: Iterable[Busy], now: float) -> float:
    """Return when all would have ended that start in this order as soon as their parts are free."""
    ends = [(max(one.ends, now), one.needs) for one in busy]
    waiting, last = list(order), max([now, *(end for end, _ in ends)])
    while waiting:
        taken = 0
        for end, needs in ends:
            if end > now:
                taken |= needs
        ends = [pair for pair in ends if pair[0] > now]
        later = []
        for one in waiting:
            if one.needs & taken:
                later.append(one)
            else:
                taken |= one.needs
                ends.append((now + one.expected, one.needs))
        waiting, last = later, max([last, *(end for end, _ in ends)])
        now = min(end for end, _ in ends)
    return last


def planned_starts(line: Line, busy: Iterable[Busy], now: float) -> dict[str, float]:
    """Return by name when each of a line would start, if all took as long as is expected.

    What was to have ended by now is taken to end now; nobody comes any more, and nobody moves.
    """
    held, left, starts = list(busy), list(line.entries), dict[str, float]()
    while left:
        held = [one for one in held if one.ends > now]
        reserved = line.reserved if line.reserved in left else None
        begun = starting(Line(left, reserved), held, now)
        starts |= {one.name: now for one in begun}
        held += [Busy(one.needs, now + one.expected) for one in begun]
        left = [one for one in left if one.name not in starts]
        now = min((one.ends for one in held if one.ends > now), default=now)
    return starts


def _held_by(first: Iterable[Waiting], now: float) -> list[Busy]:
    return [Busy(one.needs, now + one.expected) for one in first]


def _union(held: Iterable[Busy]) -> int:
    taken = 0
    for one in held:
        taken |= one.needs
    return taken


def _moved(order: list[Waiting]) -> list[Waiting]:
    """Apply the moves, in the order in which they were wished.

    Ignore a move before an entry that no longer waits: nobody agreed to be passed by it.
    """
    moves = [(one.move.at, one.name, one, one.move) for one in order if one.move is not None]
    for _, _, one, move in sorted(moves, key=lambda row: row[:2]):
        names = [other.name for other in order if other is not one]
        if move.to == "before" and move.other not in names:
            continue
        order.remove(one)
        at = names.index(move.other) if move.to == "before" else 0
        order.insert(len(order) if move.to == "last" else at, one)
    return order
