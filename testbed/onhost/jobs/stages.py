"""Stages of traffic on a rail, as one rank runs them: where each begins, and where it ends.

A stage is operations of the same ranks of one group with none of other ranks between them
(testbed/rails/stage.py). Which operation is the last of one is known from the first iteration on,
since all are alike.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Optional

from ..communication.stages import Stage, Stages
from ..errors import ProtocolError

Key = tuple[str, tuple[int, ...]]
"""A group, and the ranks of it that need circuits together."""


class NoStages:
    """On a packet switch every rank reaches every other at any time."""

    def reached(self, stage: Stage) -> float:
        """Return the present instant."""
        return time.monotonic()

    def left(self, stage: Stage, following: Optional[Stage]) -> None:
        """Do nothing."""


def _nothing() -> None:
    pass


class StageOrder:
    """Calls `stages` where stages begin and end among the operations of one rank on its rail."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._known: Sequence[Key] = ()
        """The operations of every iteration, in order; empty in the first."""
        self._seen: list[Key] = []
        self._current: Optional[Stage] = None
        self._drain: Callable[[], None] = _nothing
        self._numbers: Counter[Key] = Counter()
        """How many stages of each have begun, since the start and in this iteration."""
        self._places: Counter[Key] = Counter()

    def before(self, key: Key, drain: Callable[[], None] = _nothing) -> float:
        """Begin an operation, and a stage with it unless it is in one; return since when it can.

        `drain` is called before the stage is left, so that nothing is on its circuits any more.
        """
        place = len(self._seen)
        if self._known and self._known[place : place + 1] != [key]:
            raise ProtocolError(f"operation {place} of an iteration was another one than {key}")
        self._seen.append(key)
        if self._current is not None and _key(self._current) == key:
            return time.monotonic()
        stage = self._next(key)
        self._leave(stage)
        self._current, self._drain = stage, drain
        self._numbers[key] += 1
        self._places[key] += 1
        return self._stages.reached(stage)

    def after(self) -> None:
        """End an operation, and its stage where it is known to be the last one of it."""
        place = len(self._seen)
        if not self._known or self._current is None:
            return
        if place == len(self._known):
            self._leave(self._first())
        elif self._known[place] != _key(self._current):
            self._leave(self._next(self._known[place]))

    def end_iteration(self) -> None:
        """Begin the next iteration, whose operations are those of this one."""
        if self._known and len(self._seen) != len(self._known):
            raise ProtocolError(
                f"an iteration had {len(self._seen)} operations on the rail, not {len(self._known)}"
            )
        self._known, self._seen = self._seen, []
        self._leave(self._first() if self._known else None)
        self._places.clear()

    def _leave(self, following: Optional[Stage]) -> None:
        if self._current is not None:
            left, self._current = self._current, None
            self._drain()
            self._stages.left(left, following)

    def _first(self) -> Stage:
        """Return the first stage of the next iteration."""
        group, ranks = self._known[0]
        return Stage(group, self._numbers[group, ranks], ranks, 0)

    def _next(self, key: Key) -> Stage:
        group, ranks = key
        return Stage(group, self._numbers[key], ranks, self._places[key])


def _key(stage: Stage) -> Key:
    return stage.group, stage.ranks
