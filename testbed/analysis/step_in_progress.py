"""One step while the ranks report it, one after the other.

What a report costs is the same for ten ranks and for a thousand: nothing is left to be done for all
of them at once when the last one reports.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

from testbed.analysis.clocks import Bounds, Clocks, Instant
from testbed.analysis.report_columns import timed_changes
from testbed.analysis.steps import Step
from testbed.events import Event


@dataclass(slots=True)
class StepInProgress:
    """The reports of one step so far: of the first, and of all together. See `StepReports`."""

    first: Event
    reports: int = 0
    _begin: Bounds = (inf, inf, inf)
    _end: Bounds = (-inf, -inf, -inf)
    _entered: list[float] = field(default_factory=lambda: [-inf, -inf])
    """When the last rank but one, and the last one, entered the collective."""
    _left: float = -inf
    _bytes: int = 0
    _loss: float | None = None
    _digests: dict[int, str] = field(default_factory=dict)
    _is_verified: bool = True
    _timed_changes: float = 0.0
    _is_measured: bool = True

    def add(self, report: Event, clocks: Clocks) -> None:
        """Take the report of one more rank."""
        data = report.data
        self.reports += 1
        digest = data.get("digest", "")
        # Ranks with one part of the parameters have the same; of a split model some know the loss.
        is_alike = self._digests.setdefault(data.get("part", 0), digest) == digest
        self._loss = data.get("loss") if self._loss is None else self._loss
        self._is_verified &= bool(data.get("verified", report.kind == "sample")) and is_alike
        self._bytes = max(self._bytes, data.get("bytes") or 0)
        self._timed_changes = max(self._timed_changes, timed_changes(data))
        begin, end = data["begin"], data["end"]
        # What enters a timed collective is what begins.
        both = (begin, end) if report.kind == "sample" else data["collective"]
        found = clocks.bounds(report, (begin, end, *both))
        if found is None:
            self._is_measured = False
            return
        if found[0][0] < self._begin[0]:
            self._begin = found[0]
        if found[1][1] > self._end[1]:
            self._end = found[1]
        entered = found[2][2]
        if entered > self._entered[0]:
            self._entered = sorted((entered, self._entered[1]))
        self._left = max(self._left, found[3][2])

    def finished(self) -> Step | None:
        """Return the step once all ranks have reported it; None where a clock is not measured."""
        if not self._is_measured:
            return None
        data: Any = self.first.data
        before, last = self._entered
        work = ""
        if self.first.kind == "sample":
            work = f"{data.get('dimension') or data.get('algorithm', 'ring')} {data['size']}"
        return Step(
            data["generation"],
            data["step"],
            Instant(*self._begin),
            Instant(*self._end),
            self._is_verified,
            self._loss,
            self._left - last,
            last - before if self.reports > 1 else 0.0,
            self._bytes,
            data.get("choice", 0),
            work,
            self._timed_changes,
        )
