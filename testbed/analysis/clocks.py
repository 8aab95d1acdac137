"""Hosts' stamps moved to the orchestrator's clock, with the error that this leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        self._boots: dict[str, list[list[_Measured]]] = {}
        for event in events:
            if event.kind == "host.ready":
                self._boots.setdefault(event.subject, []).append([])
            elif event.kind == "clock.offset":
                found = _Measured(event.t, event.data["ahead"], event.data["bound"])
                self._boots.setdefault(event.subject, [[]])[-1].append(found)

    def instant(self, event: Event, mono: float) -> Instant | None:
        """Return a stamp of an event's host in the log's seconds; None for an unmeasured clock.

        Between two measurements the offset is interpolated and the larger of their bounds holds.
        Of several starts of the host it is the one that brings the stamp closest to its report.
        """
        boots = [points for points in self._boots.get(event.data["host"], []) if points]
        found = [_corrected(points, mono) for points in boots]
        return min(found, key=lambda at: abs(at.middle - event.t), default=None)


def _corrected(points: Sequence[_Measured], mono: float) -> Instant:
    around = mono - points[0].ahead
    before = [point for point in points if point.t <= around][-1:] or points[:1]
    after = [point for point in points if point.t >= around][:1] or points[-1:]
    ahead, bound = _between(before[0], after[0], around)
    return Instant(mono - ahead - bound, mono - ahead + bound)


def _between(one: _Measured, other: _Measured, at: float) -> tuple[float, float]:
    if other.t == one.t:
        return one.ahead, one.bound
    share = min(1.0, max(0.0, (at - one.t) / (other.t - one.t)))
    return one.ahead + share * (other.ahead - one.ahead), max(one.bound, other.bound)
