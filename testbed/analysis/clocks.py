"""Hosts' stamps moved to the orchestrator's clock, with the error that this leaves."""

from __future__ import annotations

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


class Clocks:
    """How far each host's clock is ahead of the log's, over time."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._measured: dict[str, list[tuple[float, float, float]]] = {}
        for event in events:
            if event.kind == "clock.offset":
                point = (event.t, event.data["ahead"], event.data["bound"])
                self._measured.setdefault(event.subject, []).append(point)

    def instant(self, host: str, mono: float) -> Instant | None:
        """Return a host's stamp in the log's seconds; None when its clock was never measured.

        Between two measurements the offset is interpolated and the larger of their bounds holds.
        """
        points = self._measured.get(host)
        if not points:
            return None
        around = mono - points[0][1]
        before = [p for p in points if p[0] <= around][-1:] or points[:1]
        after = [p for p in points if p[0] >= around][:1] or points[-1:]
        ahead, bound = _between(before[0], after[0], around)
        return Instant(mono - ahead - bound, mono - ahead + bound)


def _between(
    one: tuple[float, float, float], other: tuple[float, float, float], at: float
) -> tuple[float, float]:
    if other[0] == one[0]:
        return one[1], one[2]
    share = min(1.0, max(0.0, (at - one[0]) / (other[0] - one[0])))
    return one[1] + share * (other[1] - one[1]), max(one[2], other[2])
