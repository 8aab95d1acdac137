"""Trials whose job could not go on, for a reason that names what was broken."""

from __future__ import annotations

import re
from collections.abc import Iterable

from testbed.analysis.clocks import Instant
from testbed.analysis.metric_definitions import NAMED_END
from testbed.events import Event


def named_end(
    events: Iterable[Event], end: Event | None, fault: Instant | None
) -> dict[str, float]:
    """Return `named_end` of a trial whose job was not well at its end; nothing where it has none.

    It is the time from the first fault until the trial was over. `fault` is when that of a job took
    effect. The reason must name a rank, a host or a switch that was struck, not only ports of it.
    """
    if end is None or end.data["recovered"]:
        return {}
    struck = [event for event in events if event.kind in ("fault.inject", "far-end.fault")]
    reason = str(end.data["reason"])
    if not any(
        re.search(rf"\b{name}\b(?!\.)", reason) for event in struck for name in _names(event)
    ):
        return {}
    begun = [event.t for event in struck if event.kind == "far-end.fault"]
    begun += [] if fault is None else [fault.early]
    return {NAMED_END: end.t - min(begun)} if begun else {}


def _names(event: Event) -> list[str]:
    """Return how a reason may name what a fault struck, as regular expressions."""
    found = [re.escape(event.subject)]
    if (rank := event.data.get("rank")) is not None:
        found.append(rf"rank (?:[0-9]+ and )*{rank}")
    return found
