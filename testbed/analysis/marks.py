"""The marks t0 … t11 of one trial, and who saw the failure when.

t0 fault takes effect · t1 first symptom anywhere · t2 failure decided · t3 victim fenced ·
t4 fabric commanded · t5 fabric read back · t6 light and link good, identity verified ·
t7 survivors out · t8 new generation complete · t9 state restored, step agreed ·
t10 last rank finished the first verified step · t11 throughput back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.analysis.clocks import Clocks, Instant
from testbed.analysis.steps import Step, intervals, step_time
from testbed.events import Event

WINDOW = 5
"""t11 is the first of so many consecutive steps …"""

BACK = 0.95
"""… whose mean rate is this share of the median before the fault."""

NAMES = tuple(f"t{number}" for number in range(12))


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a trial, in the log's seconds; a mark that was not reached is missing."""

    at: dict[str, Instant]

    def relative(self) -> dict[str, float]:
        """Return each mark in seconds after t0.

        t0 counts from its early end and every other mark to its late end, so that no uncertainty
        ever shortens a recovery.
        """
        if "t0" not in self.at:
            return {}
        zero = self.at["t0"].early
        later = {name: at.late - zero for name, at in self.at.items() if name != "t0"}
        return {"t0": 0.0} | {name: round(t, 6) for name, t in later.items()}

    def errors(self) -> dict[str, float]:
        """Return the width of each mark's interval, in seconds."""
        return {name: round(at.late - at.early, 6) for name, at in self.at.items()}


class MarkFinder:
    """Find the marks of one trial in its events."""

    def __init__(self, events: Sequence[Event], clocks: Clocks, steps: Sequence[Step]) -> None:
        self._events = events
        self._clocks = clocks
        self._steps = steps
        self._window = (-math.inf, math.inf)

    def find(self) -> Marks:
        """Return every mark that the trial reached.

        What happened after t10 belongs to no mark but t11: a second recovery is another story.
        """
        zero = self.fault()
        if zero is None:
            return Marks({})
        t10, t11 = self._back_to_work(zero)
        self._window = (zero.early, math.inf if t10 is None else t10.late)
        found = {
            "t0": zero,
            "t1": self._first("symptom", "rank.exit", "host.lost"),
            "t2": self._first("recovery.decided"),
            "t3": self._first("recovery.fenced"),
            "t4": self._fabric("commanded"),
            "t5": self._fabric("read_back"),
            "t6": self._last("link.good"),
            "t7": self._last("rank.left"),
            "t8": self._last("generation"),
            "t9": self._last("state.restored"),
            "t10": t10,
            "t11": t11,
        }
        return Marks({name: at for name, at in found.items() if at is not None})

    def seen(self, kind: str) -> list[tuple[Event, Instant]]:
        """Return the events of a kind between the fault and the end of its recovery."""
        early, late = self._window
        stamped = [(event, self.instant(event)) for event in self._events if event.kind == kind]
        return [(event, at) for event, at in stamped if early <= at.late and at.early <= late]

    def instant(self, event: Event) -> Instant:
        """Return when an event happened: by its host's clock where it carries a stamp of one."""
        if "mono" in event.data and "host" in event.data:
            at = self._clocks.instant(event, event.data["mono"])
            if at is not None:
                return at
        return Instant.exactly(event.t)

    def fault(self) -> Instant | None:
        """Return when the fault took effect; None where there was none, or nobody knows."""
        for event in self._events:
            if event.kind == "fault.inject":
                return self._injected(event)
        return None

    def _injected(self, event: Event) -> Instant | None:
        if "sent" in event.data:
            return Instant(event.data["sent"], event.data["done"])
        ends = [self._clocks.instant(event, mono) for mono in event.data["mono"]]
        if ends[0] is None or ends[1] is None:
            return None
        return Instant(ends[0].early, ends[1].late)

    def _first(self, *kinds: str) -> Instant | None:
        seen = [one for kind in kinds for one in self.seen(kind)]
        found = [at for event, at in seen if not event.data.get("up", False)]
        return min(found, key=lambda at: at.early, default=None)

    def _last(self, kind: str) -> Instant | None:
        found = [at for _, at in self.seen(kind)]
        return max(found, key=lambda at: at.late, default=None)

    def _fabric(self, which: str) -> Instant | None:
        found = [e for e, _ in self.seen("fabric.change") if e.subject == "recovery"]
        return Instant.exactly(found[-1].data[which]) if found else None

    def _back_to_work(self, zero: Instant) -> tuple[Instant | None, Instant | None]:
        """Return t10 and t11.

        The first step that counts belongs to a new generation; where the job rode the fault out
        in its own, it is the first that began after the fault: one that was under way may have had
        all that it needed.
        """
        before = [step for step in self._steps if step.end.late < zero.early]
        after = [s for s in self._steps if s.begin.late > zero.early and s.is_verified]
        if any(event.kind == "recovery.decided" for event in self._events):
            last = max((step.generation for step in before), default=self._first_generation())
            after = [step for step in after if step.generation > last]
        if not after:
            return None, None
        return after[0].end, _throughput_back(before, after)

    def _first_generation(self) -> int:
        begun = (event.data for event in self._events if event.kind == "trial.begin")
        generation: int = next(begun, {}).get("generation", -1)
        return generation


def _throughput_back(before: Sequence[Step], after: Sequence[Step]) -> Instant | None:
    """Return the end of the first of WINDOW consecutive steps that are fast again in the mean."""
    normal, found = step_time(before), intervals(after)
    for first in range(len(found) - WINDOW + 1):
        window = found[first : first + WINDOW]
        if normal is not None and sum(window) / WINDOW <= normal / BACK:
            return after[first + 1].end
    return None
