"""The steps of a job, each with the time stamps of all ranks."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from testbed.analysis.clocks import Clocks, Instant
from testbed.analysis.grouping import grouped
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


def rank_count(events: Iterable[Event]) -> int:
    """Return the number of ranks that reported a step or a sample."""
    ranks = {event.data["rank"] for event in events if event.kind in KINDS} - {None}
    return 1 + max(ranks, default=-1)


def finished_steps(events: Iterable[Event], clocks: Clocks, ranks: int) -> list[Step]:
    """Return the steps that all ranks finished, in the order of their ends."""
    reports = grouped(
        (e for e in events if e.kind in KINDS and e.data["rank"] is not None), generation_and_step
    )
    steps = [_step(key, group, clocks) for key, group in reports.items() if len(group) == ranks]
    return sorted((step for step in steps if step is not None), key=lambda step: step.end.late)


def generation_and_step(report: Event) -> tuple[int, int]:
    """Return the generation and the number of the step that a rank reports."""
    return report.data["generation"], report.data["step"]


def _step(key: tuple[int, int], reports: Sequence[Event], clocks: Clocks) -> Step | None:
    entries = [clocks.instant(r, _collective(r)[0]) for r in reports]
    exits = [clocks.instant(r, _collective(r)[1]) for r in reports]
    begins = _known(clocks.instant(r, r.data["begin"]) for r in reports)
    ends = _known(clocks.instant(r, r.data["end"]) for r in reports)
    if len(begins) < len(reports) or len(ends) < len(reports):
        return None
    arrived = sorted(at.middle for at in _known(entries))
    digests = {report.data.get("digest", "") for report in reports}
    return Step(
        generation=key[0],
        number=key[1],
        begin=min(begins, key=lambda at: at.early),
        end=max(ends, key=lambda at: at.late),
        is_verified=len(digests) == 1 and all(map(_is_verified, reports)),
        loss=reports[0].data.get("loss"),
        collective=max(e.middle for e in _known(exits)) - arrived[-1],
        skew=arrived[-1] - arrived[-2] if len(arrived) > 1 else 0.0,
        bytes_sent=max(report.data.get("bytes") or 0 for report in reports),
        choice=reports[0].data.get("choice", 0),
        work=_work(reports[0]),
    )


def _collective(report: Event) -> tuple[float, float]:
    """Return when a rank entered the collective and when it was through, by its own clock."""
    if report.kind == "sample":
        return report.data["begin"], report.data["end"]
    begin, end = report.data["collective"]
    return begin, end


def _is_verified(report: Event) -> bool:
    """Return whether a rank verified the sums; one that times a collective goes on only if so."""
    is_good: bool = report.data.get("verified", report.kind == "sample")
    return is_good


def _work(report: Event) -> str:
    if report.kind == "step":
        return ""
    what = report.data.get("dimension") or report.data.get("algorithm", "ring")
    return f"{what} {report.data['size']}"


def _known(instants: Iterable[Instant | None]) -> list[Instant]:
    return [at for at in instants if at is not None]


def step_time(steps: Sequence[Step]) -> float | None:
    """Return the median time between the ends of two steps; None for fewer than two."""
    found = [b.end.middle - a.end.middle for a, b in pairwise(steps)]
    return statistics.median(found) if found else None


def kind_of_interval(one: Step, other: Step) -> str:
    """Return a key for the interval between two steps; equal for intervals of like steps."""
    return other.work if one.work == other.work else f"{one.work}, {other.work}"


def usual_intervals(steps: Sequence[Step]) -> dict[str, float]:
    """Return the median interval between the ends of consecutive steps, by kind."""
    by_kind = grouped(pairwise(steps), lambda pair: kind_of_interval(*pair))
    return {
        kind: statistics.median(b.end.middle - a.end.middle for a, b in pairs)
        for kind, pairs in by_kind.items()
    }


def wire_overhead(events: Iterable[Event], generation: int, last: int) -> float | None:
    """Return the share of bytes that a rank's ports sent beyond the data of its AllReduces.

    The median over the ranks, from the end of the first to the end of the last step of a
    generation, up to step `last`. None where ports have no counters.
    """
    counted = (
        event
        for event in events
        if event.kind == "step" and event.data["generation"] == generation
        if event.data["step"] <= last and event.data.get("wire") is not None
    )
    shares = []
    for reports in grouped(counted, lambda event: event.data["rank"]).values():
        asked = sum(report.data["bytes"] for report in reports[1:])
        if asked:
            sent = reports[-1].data["wire"] - reports[0].data["wire"]
            shares.append(sent / asked - 1)
    return statistics.median(shares) if shares else None
