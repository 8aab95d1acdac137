"""Simulated clients that wait for a job: each asks for offers periodically.

Most requests get no offer and change nothing. So they are skipped while there is no offer; then
clients ask in the order and at the instants of their periods.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

Place = tuple[float, int]
"""When in its period a client asks, and its number."""


class Rotation:
    """Clients of one kind, sorted by the phase of their requests."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._places: list[Place] = []
        self._parked: set[Place] = set()
        self.version = 0
        """Counts plans to ask; of those only the latest is carried out."""
        self.is_asking = False

    def add(self, place: Place) -> None:
        """Add a waiting client."""
        insort(self._places, place)

    def park(self, place: Place) -> None:
        """Add a client for which the present offers are unsuitable, until there are others."""
        self._parked.add(place)

    def unpark(self) -> None:
        """Make all parked clients ask again."""
        if self._parked:
            self._places = sorted([*self._places, *self._parked])
            self._parked.clear()

    def forget_plan(self) -> None:
        """Discard the precomputed order in which clients ask next."""
        self.version += 1
        self.is_asking = False

    def discard(self, place: Place) -> bool:
        """Remove a client; return whether it was waiting and not parked."""
        at = bisect_left(self._places, place)
        if at < len(self._places) and self._places[at] == place:
            del self._places[at]
            return True
        self._parked.discard(place)
        return False

    def next(self, now: float, after: Place | None = None) -> tuple[float, Place] | None:
        """Return which client asks next after `now`, and when.

        `after` is the client that has just asked, at `now`.
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
        """Return the numbers of all waiting clients."""
        return [place[1] for place in (*self._places, *self._parked)]
