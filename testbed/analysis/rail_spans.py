"""When each circuit of a rail was commanded, carried data, and was commanded away."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from testbed.events import Event

KINDS = ("fabric.change", "link.good")
"""The events that tell of it."""


@dataclass(frozen=True, slots=True)
class RailSpan:
    """The time for which a circuit was there; instants are seconds of the log."""

    rail: str
    group: str
    """Whose stages it was made for."""
    circuit: str
    commanded: float
    lit: float | None = None
    """When a question was first answered over it."""
    removed: float | None = None
    """When its end was commanded; None for a circuit that stays."""


def rail_spans(events: Iterable[Event], trial: int | None) -> list[RailSpan]:
    """Return the circuits on rails in a trial, in the order of their commands.

    A circuit on a rail has an owner `JOB.RAIL.GROUP`, as `run.rail_commands` names it.
    """
    there: dict[str, RailSpan] = {}
    over: list[RailSpan] = []
    known = frozenset[str]()
    for event in events:
        if event.kind == "link.good" and event.subject in there:
            span = there[event.subject]
            lit = event.t if span.lit is None else span.lit
            there[event.subject] = replace(span, lit=lit)
        elif event.kind == "fabric.change":
            now = frozenset(map(str, event.data["circuits"]))
            at = float(event.data["commanded"])
            for gone in sorted((known - now) & there.keys()):
                over.append(replace(there.pop(gone), removed=at))
            rail, group = _rail_and_group(event.origin.owner)
            if rail and event.trial == trial:
                there |= {new: RailSpan(rail, group, new, at) for new in sorted(now - known)}
            known = now
    return sorted([*over, *there.values()], key=lambda span: (span.commanded, span.circuit))


def _rail_and_group(owner: str) -> tuple[str, str]:
    parts = owner.rsplit(".", 2)
    return (parts[1], parts[2]) if len(parts) == 3 else ("", "")
