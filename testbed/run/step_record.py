"""Which steps of a trial are recorded where a file asks for some of them, and the counts of all.

Near a fault or a symptom all steps are recorded, for the marks of a recovery are found in them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from testbed.events import Event
from testbed.record.log import EventLog

NEAR = 100
"""Steps before a fault, and after what it led to, that are all recorded."""

_SYMPTOMS = ("symptom", "rank.exit", "host.lost")


class StepRecord:
    """Records every so many steps of a job in one trial; `last` is the last that it ever makes."""

    def __init__(self, log: EventLog, every: int, last: int | None) -> None:
        self._log, self._every, self._last = log, every, last
        self._near: list[tuple[float, float]] = []
        """The first and the last step of each part that is recorded as a whole."""
        self._newest = 0
        self._skipped: dict[int, tuple[int, int]] = {}
        """By rank, the steps since the last one of it that was recorded, and the bytes sent."""
        self._reports = self._recorded = self._elements = 0

    def note_fault(self, step: int) -> None:
        """Record all steps from some before this one on: a fault comes in it."""
        self._near.append((step - NEAR, math.inf))

    def let_go(self) -> None:
        """Record all of some more steps: faults were taken back, and what they led to is over."""
        self._near = [(first, min(last, self._newest + NEAR)) for first, last in self._near]

    def append_data(self, kind: str, subject: str, at: float, data: Mapping[str, Any]) -> Event:
        """Write an agent's report to the log, unless it is of a step that is not recorded.

        The event of such a step has no number. The next one that is says how many were left out.
        """
        if kind in _SYMPTOMS and not self._is_near(self._newest):
            self._near.append((self._newest - NEAR, self._newest + NEAR))
        if kind == "operations" and not self._is_recorded(data["step"]):
            return self._log.unwritten(kind, subject, at, data)
        if kind != "step" or data["rank"] is None:
            return self._log.append_data(kind, subject, at, data)
        return self._step(subject, at, data)

    def _step(self, subject: str, at: float, data: Mapping[str, Any]) -> Event:
        rank, step = data["rank"], data["step"]
        self._newest = max(self._newest, step)
        self._reports += 1
        self._elements += data.get("elements", 0)
        steps, sent = self._skipped.pop(rank, (0, 0))
        if not self._is_recorded(step):
            self._skipped[rank] = steps + 1, sent + data["bytes"]
            return self._log.unwritten("step", subject, at, data)
        self._recorded += 1
        if steps:
            data = {**data, "skipped": steps, "skipped_bytes": sent}
        return self._log.append_data("step", subject, at, data)

    def _is_recorded(self, step: int) -> bool:
        return step % self._every == 0 or step == self._last or self._is_near(step)

    def _is_near(self, step: int) -> bool:
        return any(first <= step <= last for first, last in self._near)

    def note_counts(self, job: str, completed: int) -> None:
        """Write the counts of all steps, where some of them are not recorded."""
        if self._every > 1:
            self._log.append(
                "steps.counted",
                job,
                every=self._every,
                completed=completed,
                reports=self._reports,
                recorded=self._recorded,
                elements=self._elements,
            )
