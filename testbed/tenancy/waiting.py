"""Simulated clients that wait for a job: each asks again every few seconds, in its own rhythm.

Most of that asking is in vain and changes nothing. So none asks while there is nothing to be had;
when there is, clients ask in the order and at the instants at which their rhythm has it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

Place = tuple[float, int]
"""When in its period a client asks, and its number."""


class Rotation:
    """Clients of one kind by the phase of their asking."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._places: list[Place] = []
        self._parked: set[Place] = set()
        self.version = 0
        """Counts plans to ask; of those only the latest is carried out."""
        self.is_asking = False

    def add(self, place: Place) -> None:
        """Have a client wait."""
        insort(self._places, place)

    def park(self, place: Place) -> None:
        """Have a client wait for other offers than those of now, which are of no use to it."""
        self._parked.add(place)

    def unpark(self) -> None:
        """Let all that were parked ask again."""
        if self._parked:
            self._places = sorted([*self._places, *self._parked])
            self._parked.clear()

    def forget_plan(self) -> None:
        """Have the plan who asks next be made anew."""
        self.version += 1
        self.is_asking = False

    def discard(self, place: Place) -> bool:
        """Remove a client; tell whether it asked in turn, and was not parked."""
        at = bisect_left(self._places, place)
        if at < len(self._places) and self._places[at] == place:
            del self._places[at]
            return True
        self._parked.discard(place)
        return False

    def next(self, now: float, after: Place | None = None) -> tuple[float, Place] | None:
        """Return who asks next after `now`, and when.

        With `after`, that is the place that has just asked, now.
        """
        if not self._places:
            return None
        phase = now % self._period if after is None else after[0]
        key: tuple[float, float] = (phase, float("inf")) if after is None else after
        at = bisect_right(self._places, key)
        place = self._places[at % len(self._places)]
        wait = place[0] - phase
        return now + (wait if at < len(self._places) else wait + self._period), place

    def waiting(self) -> Iterable[int]:
        """Return the numbers of all clients that wait."""
        return [place[1] for place in (*self._places, *self._parked)]
