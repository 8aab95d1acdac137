"""The event queue of the simulation, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any


class Agenda:
    """Actions at instants in seconds; those of one instant run in the order of scheduling."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        """Acts that have happened."""
        self._acts: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = count()

    def at(self, instant: float, act: Callable[..., None], *arguments: Any) -> None:
        """Schedule an action at an instant."""
        heappush(self._acts, (instant, next(self._number), act, arguments))

    def after(self, wait: float, act: Callable[..., None], *arguments: Any) -> None:
        """Schedule an action `wait` seconds from now."""
        self.at(self.now + wait, act, *arguments)

    def step(self, horizon: float) -> bool:
        """Run the next action; return whether there was one before the horizon."""
        if not self._acts or self._acts[0][0] > horizon:
            return False
        self.now, _, act, arguments = heappop(self._acts)
        self.events += 1
        act(*arguments)
        return True
