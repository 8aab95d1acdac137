"""The steps of a job, each with the time stamps of all ranks."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from testbed.analysis.clocks import Instant
from testbed.events import Event

KINDS = ("step", "sample")
"""The events that say that a rank finished a step: of training, or one timed collective."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step that every rank finished."""

    generation: int
    number: int
    begin: Instant
    """When the first rank began it."""
    end: Instant
    """When the last rank had committed it."""
    is_verified: bool
    """Every rank verified the sums, and all hold the same parameters afterwards."""
    loss: float | None
    """None for a collective that is only timed."""
    collective: float
    """Seconds from the last rank's entry into the AllReduce to the last one's exit."""
    skew: float
    """Seconds from the entry of the rank before the last one to that of the last."""
    bytes_sent: int
    """Bytes that each rank sent in the AllReduce."""
    choice: int = 0
    """The number of the choice that the AllReduce followed, 0 for none."""
    work: str = ""
    """The algorithm or dimension, and the size, of a timed collective; training is all alike."""
    timed_changes: float = 0.0
    """Seconds before a timed collective in which circuits were changed only to be timed."""


class Span(NamedTuple):
    """The time from the end of one step to that of a later one, in the log's seconds.

    What was timed besides, before the later one, is left out at the beginning.
    """

    begin: float
    end: float
    steps: int
    """How many it has, where not all are in the record."""


def generation_and_step(report: Event) -> tuple[int, int]:
    """Return the generation and the number of the step that a rank reports."""
    return report.data["generation"], report.data["step"]


def steps_to(one: Step, other: Step) -> int:
    """Return how many steps it is from one in the record to the next one in it, at least 1."""
    return max(1, other.number - one.number) if one.generation == other.generation else 1


def interval(one: Step, other: Step) -> float:
    """Return the seconds from the end of one step to that of the next.

    Where steps between two are not in the record, it is what each of them took in the mean.
    """
    return (other.end.middle - one.end.middle) / steps_to(one, other)


def step_time(steps: Sequence[Step]) -> float | None:
    """Return the median time between the ends of two steps; None for fewer than two."""
    found = [interval(a, b) for a, b in pairwise(steps)]
    return statistics.median(found) if found else None


def kind_of_interval(one: Step, other: Step) -> str:
    """Return a key for the interval between two steps; equal for intervals of like steps."""
    return other.work if one.work == other.work else f"{one.work}, {other.work}"


def usual_intervals(steps: Sequence[Step]) -> dict[str, float]:
    """Return the median interval between the ends of consecutive steps, by kind."""
    by_kind: dict[str, list[float]] = {}
    for one, other in pairwise(steps):
        by_kind.setdefault(kind_of_interval(one, other), []).append(interval(one, other))
    return {kind: statistics.median(found) for kind, found in by_kind.items()}


def spans(steps: Sequence[Step]) -> dict[str, list[Span]]:
    """Return the spans between the ends of consecutive steps, by kind of the interval."""
    found: dict[str, list[Span]] = {}
    for one, other in pairwise(sorted(steps, key=lambda step: step.end.middle)):
        begin = min(one.end.middle + other.timed_changes, other.end.middle)
        span = Span(begin, other.end.middle, steps_to(one, other))
        found.setdefault(kind_of_interval(one, other), []).append(span)
    return found


def ends(steps: Sequence[Step]) -> dict[float, int]:
    """Return when steps ended, in order; of each, how many it is since the one before it."""
    ordered = sorted(steps, key=lambda step: step.end.middle)
    found = {step.end.middle: 1 for step in ordered[:1]}
    found.update((b.end.middle, steps_to(a, b)) for a, b in pairwise(ordered))
    return found


def collective_share(steps: Sequence[Step], fault: Instant | None) -> dict[str, float]:
    """Return of a step of training before a fault, if any, the share that its collective took."""
    quiet = [
        step for step in steps if not step.work and (fault is None or step.end.late < fault.early)
    ]
    usual = step_time(quiet)
    if not usual:
        return {}
    return {"collective_share": statistics.median(step.collective for step in quiet) / usual}


def end_digest(events: Sequence[Event]) -> str:
    """Return the digest of the state at the end; empty where ranks that share one differ.

    Where each rank has a part of it, it is the SHA-256 of the parts' digests, in their order.
    """
    ends: dict[int, str] = {}
    for event in events:
        if event.kind == "job.done":
            part, digest = event.data.get("part", 0), event.data["digest"]
            if ends.setdefault(part, digest) != digest:
                return ""
    if len(ends) < 2:
        return next(iter(ends.values()), "")
    return hashlib.sha256("".join(ends[part] for part in sorted(ends)).encode()).hexdigest()
