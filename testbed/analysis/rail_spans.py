"""When each circuit was commanded, carried data, and was commanded away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from testbed.events import Event

KINDS = ("fabric.change", "link.good")
"""The events that tell of it."""


@dataclass(slots=True)
class CircuitSpan:
    """The time for which a circuit was there, as far as told; instants are seconds of the log."""

    circuit: str
    owner: str
    """On a rail `JOB.RAIL.GROUP`, as `run.rail_commands` names it."""
    trial: int | None
    """In which it was commanded."""
    commanded: float
    steady: float | None = None
    """When its switches called it steady."""
    lit: float | None = None
    """When a question was first answered over it."""
    removed: float | None = None
    """When its end was commanded; None for a circuit that stays."""

    @property
    def rail(self) -> str:
        """Return on which rail it is; empty for a circuit on none."""
        return job_rail_and_group(self.owner)[1]

    @property
    def group(self) -> str:
        """Return whose stages on a rail it was made for."""
        return job_rail_and_group(self.owner)[2]


class CircuitSpans:
    """The circuits of a log, taken event by event in its order."""

    def __init__(self) -> None:
        self._there: dict[str, CircuitSpan] = {}

    def add(self, event: Event) -> Iterator[CircuitSpan]:
        """Take one event; yield the circuits whose end it tells."""
        there = self._there
        if event.kind == "link.good":
            span = there.get(event.subject)
            if span is not None and span.lit is None:
                span.lit = event.t
        elif event.kind == "fabric.change":
            now = frozenset(map(str, event.data["circuits"]))
            at, steady = float(event.data["commanded"]), event.data.get("steady")
            for gone in sorted(there.keys() - now):
                span = there.pop(gone)
                span.removed = at
                yield span
            for new in sorted(now - there.keys()):
                there[new] = CircuitSpan(new, event.origin.owner, event.trial, at, steady)

    def rest(self) -> Iterator[CircuitSpan]:
        """Yield those whose end is not told."""
        yield from self._there.values()


def rail_spans(events: Iterable[Event], trial: int | None) -> list[CircuitSpan]:
    """Return the circuits on rails in a trial, in the order of their commands."""
    spans = CircuitSpans()
    over = [span for event in events for span in spans.add(event)]
    found = [span for span in (*over, *spans.rest()) if span.rail and span.trial == trial]
    return sorted(found, key=lambda span: (span.commanded, span.circuit))


def job_rail_and_group(owner: str) -> tuple[str, str, str]:
    """Return whose circuits an owner's are, from its name; empty ones for another owner."""
    parts = owner.rsplit(".", 2)
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else ("", "", "")
