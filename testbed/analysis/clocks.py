"""Hosts' stamps moved to the orchestrator's clock, with the error that this leaves."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from testbed.events import Event


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment in the log's seconds, known to lie between two bounds."""

    early: float
    late: float

    @classmethod
    def exactly(cls, t: float) -> Instant:
        """Return a moment on the orchestrator's own clock."""
        return cls(t, t)

    @property
    def middle(self) -> float:
        """Return the best guess."""
        return (self.early + self.late) / 2


@dataclass(frozen=True, slots=True)
class _Measured:
    """How far a host's clock was ahead of the log's at one moment, right to within `bound`."""

    t: float
    ahead: float
    bound: float


class Clocks:
    """How far each host's clock is ahead of the log's, over time.

    A monotonic clock starts anew with its host, so what was measured before a host was made ready
    again says nothing about later stamps.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        starts: dict[str, list[_Start]] = {}
        for event in events:
            if event.kind == "host.ready":
                starts.setdefault(event.subject, []).append(_Start(event.t))
            elif event.kind == "clock.offset":
                of_host = starts.setdefault(event.subject, [_Start(event.t)])
                of_host[-1].add(event.t, event.data["ahead"], event.data["bound"])
        self._starts = {host: [one for one in found if one.times] for host, found in starts.items()}

    def instant(self, event: Event, mono: float) -> Instant | None:
        """Return a stamp of an event's host in the log's seconds; None for an unmeasured clock.

        Between two measurements the offset is interpolated and the larger of their bounds holds.
        Of several starts of the host it is the last before the report that was measured.
        """
        starts = self._starts.get(event.data["host"], [])
        if not starts:
            return None
        later = bisect_right(starts, event.t, key=lambda start: start.ready)
        return starts[max(0, later - 1)].corrected(mono)


class _Start:
    """What was measured of a clock from one start of its host to the next, in the order of time."""

    def __init__(self, ready: float) -> None:
        self.ready = ready
        self.times: list[float] = []
        self._points: list[_Measured] = []

    def add(self, t: float, ahead: float, bound: float) -> None:
        """Take one more measurement, which was begun later than those before."""
        self.times.append(t)
        self._points.append(_Measured(t, ahead, bound))

    def corrected(self, mono: float) -> Instant:
        """Return a stamp in the log's seconds."""
        around = mono - self._points[0].ahead
        before = self._points[max(0, bisect_right(self.times, around) - 1)]
        after = self._points[min(len(self.times) - 1, bisect_left(self.times, around))]
        ahead, bound = _between(before, after, around)
        return Instant(mono - ahead - bound, mono - ahead + bound)


def _between(one: _Measured, other: _Measured, at: float) -> tuple[float, float]:
    if other.t == one.t:
        return one.ahead, one.bound
    share = min(1.0, max(0.0, (at - one.t) / (other.t - one.t)))
    return one.ahead + share * (other.ahead - one.ahead), max(one.bound, other.bound)
