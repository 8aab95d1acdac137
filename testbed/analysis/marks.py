"""The marks t0 … t11 of one trial: the instants of a recovery.

t0 fault takes effect · t1 first symptom anywhere · t2 failure decided · t3 victim fenced ·
t4 fabric commanded · t5 fabric read back · t6 light and link good, identity verified ·
t7 survivors out · t8 new generation complete · t9 state restored, step agreed ·
t10 last rank finished the first verified step · t11 throughput back.

Of several faults in a trial, t0 is that of the first, and t10 ends the first verified step that
began after the last of them had taken effect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from testbed.analysis.causes import DECISION, Repairs
from testbed.analysis.clocks import Clocks, Instant
from testbed.analysis.fault_effect import Disturbance, Effect, Response, effect_of
from testbed.analysis.steps import Step, kind_of_interval, usual_intervals
from testbed.events import Event

WINDOW = 5
"""t11 is the first of so many consecutive steps …"""

BACK = 0.95
"""… whose mean rate is this share of the median before the fault."""

_SYMPTOMS = ("symptom", "rank.exit", "host.lost")

NAMES = tuple(f"t{number}" for number in range(12))


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a trial in seconds of the event log; a mark that was not reached is missing."""

    at: dict[str, Instant]
    response: Response = "not recovered"
    """What the job did; only one that recovered has a t10."""
    watched: tuple[Step, ...] = ()
    """The steps that a fault could have touched which no policy repaired."""
    by_chance: float | None = None
    """How probable a step among these is that counts as long, where the fault does nothing."""

    def relative(self) -> dict[str, float]:
        """Return each mark in seconds after mark t0.

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
    """Finds the marks of one trial in its events."""

    def __init__(self, events: Sequence[Event], clocks: Clocks, steps: Sequence[Step]) -> None:
        self._events = events
        self._clocks = clocks
        self._steps = steps
        self._window = (-math.inf, math.inf)
        self._repairs = Repairs(events)

    def find(self) -> Marks:
        """Return every mark that the trial reached.

        What happened after t10 belongs to no mark but t11: a second recovery is not part of the
        trial's result. Of a fault that no policy repaired, t0 reaches from its injection to the
        first effect that was observed, which is t1.
        """
        zero = self.fault()
        if zero is None:
            return Marks({})
        if not self._is_repaired(zero):
            return self._unrepaired(zero)
        t10, t11 = self._back_to_work(zero)
        self._window = (zero.early, math.inf if t10 is None else t10.late)
        first = self._first(*_SYMPTOMS)
        return self._marks(zero, first, t10, t11, "not recovered" if t10 is None else "recovered")

    def _unrepaired(self, zero: Instant) -> Marks:
        effect = self.effect(zero)
        before = [step for step in self._steps if step.end.late < zero.early]
        back = effect.back
        after = [s for s in self._steps if back and s.end.late >= back.end.late and s.is_verified]
        self._window = (zero.early, back.end.late if back else math.inf)
        t0 = zero
        if effect.first is not None:
            t0 = Instant(zero.early, max(zero.early, effect.first.late))
        t10 = back.end if back else None
        t11 = _throughput_back(before, after)
        marks = self._marks(t0, effect.first, t10, t11, effect.response)
        return replace(marks, watched=tuple(effect.watched), by_chance=effect.by_chance)

    def _marks(
        self,
        zero: Instant,
        first: Instant | None,
        t10: Instant | None,
        t11: Instant | None,
        response: Response,
    ) -> Marks:
        found = {
            "t0": zero,
            "t1": first,
            "t2": self._first(DECISION),
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
        return Marks({name: at for name, at in found.items() if at is not None}, response)

    def effect(self, zero: Instant) -> Effect:
        """Return how the fault at `zero` affected the steps, where no policy repaired it."""
        symptoms = [e for e in self._events if e.kind in (*_SYMPTOMS, "fault.receipt")]
        noticed = [(event, self.instant(event)) for event in symptoms]
        noticed = [(event, at) for event, at in noticed if at.late >= zero.early]
        lost: dict[tuple[str, str], Instant] = {}
        restored: dict[tuple[str, str], Instant] = {}
        for event, at in sorted(noticed, key=lambda pair: pair[1].middle):
            port = (event.data.get("host", ""), event.data.get("port", ""))
            if event.data.get("up"):
                restored |= {port: at} if port in lost else {}
            elif event.data.get("source") == "carrier":
                lost[port] = at
                restored.pop(port, None)
        disturbance = Disturbance(
            begin=zero,
            end=self._undone(),
            is_held=any(
                e.data.get("held", False) for e in self._events if e.kind == "fault.inject"
            ),
            noticed=[at for event, at in noticed if not event.data.get("up", False)],
            lost=list(lost.values()),
            restored=list(restored.values()),
        )
        return effect_of(disturbance, self._steps)

    def _undone(self) -> Instant | None:
        ends = [event for event in self._events if event.kind == "fault.undo"]
        if not ends or len(ends) < len(self._faults()):
            return None
        undone = ends[-1]
        return Instant(undone.data.get("sent", undone.t), undone.data.get("done", undone.t))

    def finished_before(self) -> list[int]:
        """Return how many steps were finished in the generation that the fault hit, in turn."""
        zero = self.fault()
        hit = -1 if zero is None else self._generation(zero)
        return [0, *(step.number + 1 for step in self._steps if step.generation <= hit)]

    def caught_up(self) -> Instant | None:
        """Return when all ranks had done a step that was not done before the fault."""
        zero, done = self.fault(), max(self.finished_before())
        if zero is None:
            return None
        hit = self._generation(zero)
        ahead = (s for s in self._steps if s.generation > hit and s.number >= done)
        return next((step.end for step in ahead if step.is_verified), None)

    def seen(self, kind: str) -> list[tuple[Event, Instant]]:
        """Return the events of one kind between the fault and the end of its recovery.

        What is known to have been led to by something else is left out.
        """
        early, late = self._window
        ours = (e for e in self._events if e.kind == kind and self._repairs.include(e))
        stamped = [(event, self.instant(event)) for event in ours]
        return [(event, at) for event, at in stamped if early <= at.late and at.early <= late]

    def instant(self, event: Event) -> Instant:
        """Return when an event happened, by the time stamp of its host's clock if it has one."""
        if "mono" in event.data and "host" in event.data:
            at = self._clocks.instant(event, event.data["mono"])
            if at is not None:
                return at
        return Instant.exactly(event.t)

    def fault(self) -> Instant | None:
        """Return when the first fault took effect; None without one or if that is unknown."""
        faults = self._faults()
        return faults[0] if faults else None

    def _faults(self) -> list[Instant | None]:
        return [self._injected(event) for event in self._events if event.kind == "fault.inject"]

    def _all_struck(self, zero: Instant) -> float:
        """Return after when a step counts as one after the faults: late where they are several."""
        return max([zero.early, *(at.late for at in self._faults()[1:] if at is not None)])

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
        found = [e for e, _ in self.seen("fabric.change") if self._repairs.include_change(e)]
        return Instant.exactly(found[-1].data[which]) if found else None

    def _is_repaired(self, zero: Instant) -> bool:
        """Return whether a policy formed a new generation after the fault, or meant to."""
        if any(e.kind == DECISION and e.t >= zero.early for e in self._events):
            return True
        hit = self._generation(zero)
        return any(step.generation > hit for step in self._steps)

    def _generation(self, zero: Instant) -> int:
        """Return the generation that the fault hit."""
        before = [step.generation for step in self._steps if step.end.late < zero.early]
        begun = (event.data for event in self._events if event.kind == "trial.begin")
        first: int = next(begun, {}).get("generation", -1)
        return max(before, default=first)

    def _back_to_work(self, zero: Instant) -> tuple[Instant | None, Instant | None]:
        """Return t10 and t11: the first step that counts belongs to a new generation."""
        before = [step for step in self._steps if step.end.late < zero.early]
        struck = self._all_struck(zero)
        after = [s for s in self._steps if s.begin.late > struck and s.is_verified]
        hit = self._generation(zero)
        after = [step for step in after if step.generation > hit]
        if not after:
            return None, None
        return after[0].end, _throughput_back(before, after)


def _throughput_back(before: Sequence[Step], after: Sequence[Step]) -> Instant | None:
    """Return the end of the first of WINDOW consecutive steps that are fast again in the mean.

    Which step that is, the best guesses of the clocks decide; the bounds are those of its end.
    """
    usual = usual_intervals(before)
    found = [
        (other.end.middle - one.end.middle, usual.get(kind_of_interval(one, other), 0.0))
        for one, other in pairwise(after)
    ]
    for first in range(len(found) - WINDOW + 1):
        window = found[first : first + WINDOW]
        took, normal = (sum(part) for part in zip(*window, strict=True))
        if all(usually for _, usually in window) and took <= normal / BACK:
            return after[first + 1].end
    return None
