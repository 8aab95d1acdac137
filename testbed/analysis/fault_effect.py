"""Find when a fault that no policy repaired began and ceased to affect the job.

A step is long when it took longer than the longest of its kind before the fault, by more than the
clocks leave open; the first does not count, in which ranks wait until all have started. Without a
long step the job has ridden the fault out, and there is no recovery time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from testbed.analysis.clocks import Instant
from testbed.analysis.grouping import grouped
from testbed.analysis.steps import Step, kind_of_interval

BASELINE = 20
"""Steps before the fault from which on the longest of them says what is usual."""

_QUIET = 5
"""Steps in a row that are not long, after which the effect of a fault that stays is over."""

Response = Literal["recovered", "ridden out", "not recovered", "not known"]


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A fault, and the symptoms of it that were observed besides longer steps."""

    begin: Instant
    """When it was injected."""
    end: Instant | None
    """When it was taken back; None where it was not, or not yet."""
    is_held: bool
    """It is taken back after a time, whatever the job does; else it stays until a recovery."""
    noticed: Sequence[Instant] = ()
    """When an observer noticed anything of it."""
    lost: Sequence[Instant] = ()
    """When ports lost their carrier."""
    restored: Sequence[Instant] = ()
    """When those that had it again had it for good."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a fault on the job."""

    response: Response
    first: Instant | None
    """When anything of it was first observed."""
    back: Step | None
    """The first verified step that ended after the effect was over, where the job recovered."""
    watched: Sequence[Step] = ()
    """The steps that it could have touched."""
    by_chance: float | None = None
    """How probable a long step among these is where the fault does nothing; None if not known."""


@dataclass(frozen=True, slots=True)
class _Span:
    """What one step took: from the end of the one before it to its own."""

    step: Step
    begin: Instant
    kind: str
    is_first: bool
    """Ranks begin to wait for each other in it, as long as their processes take to start."""

    @property
    def seconds(self) -> float:
        return self.step.end.middle - self.begin.middle

    @property
    def error(self) -> float:
        return (self.step.end.late - self.step.end.early + self.begin.late - self.begin.early) / 2


def effect_of(disturbance: Disturbance, steps: Sequence[Step]) -> Effect:
    """Return the effect of a fault on the steps of a job, which are sorted by their ends."""
    zero = disturbance.begin.early
    spans = _spans(steps)
    baseline = [span for span in spans if span.step.end.late < zero and not span.is_first]
    longest = _longest(baseline)
    watched = _watched(disturbance, [span for span in spans if span.step.end.late >= zero])
    hit = _hit(disturbance, watched, longest)
    first = _first(disturbance, hit, longest)
    touched = tuple(span.step for span in watched)
    back = _back(disturbance, watched, hit)
    if back is None:
        return Effect("not recovered", first, None, touched)
    if any(span.kind not in longest for span in watched):
        return Effect("not known", first, None, touched)
    by_chance = _by_chance(baseline, watched)
    if not hit:
        return Effect("ridden out", first, None, touched, by_chance)
    return Effect("recovered", first, back, touched, by_chance)


def _spans(steps: Sequence[Step]) -> list[_Span]:
    spans = []
    for number, step in enumerate(steps):
        before = steps[number - 1] if number else None
        is_first = before is None or before.generation != step.generation
        if before is not None and not is_first and before.number + 1 == step.number:
            spans.append(_Span(step, before.end, kind_of_interval(before, step), is_first))
        else:
            spans.append(_Span(step, step.begin, step.work, is_first))
    return spans


def _longest(baseline: Sequence[_Span]) -> dict[str, float]:
    """Return how long a step may take, by kind; a kind of which too few are known is left out."""
    return {
        kind: max(span.seconds + span.error for span in spans)
        for kind, spans in grouped(baseline, lambda span: span.kind).items()
        if len(spans) >= BASELINE
    }


def _by_chance(baseline: Sequence[_Span], watched: Sequence[_Span]) -> float:
    """Return the probability that a step of those watched is the longest of its kind.

    Where the fault does nothing, the longest of all is as likely to be one as any other. Over
    several kinds of steps the probabilities are added, which is at least that of any.
    """
    before, after = (Counter(span.kind for span in spans) for spans in (baseline, watched))
    return min(1.0, sum(count / (before[kind] + count) for kind, count in after.items()))


def _watched(disturbance: Disturbance, spans: Sequence[_Span]) -> list[_Span]:
    """Return the steps that began before the disturbance was over, and one more."""
    if disturbance.end is None:
        return list(spans)
    over = max(at.late for at in (disturbance.end, *disturbance.restored))
    inside = [span for span in spans if span.begin.early <= over]
    return [*inside, *spans[len(inside) : len(inside) + 1]]


def _hit(
    disturbance: Disturbance, watched: Sequence[_Span], longest: Mapping[str, float]
) -> list[_Span]:
    """Return the steps that were long or failed; of a fault that stays, until it is quiet."""
    hit: list[_Span] = []
    quiet = 0
    for span in watched:
        is_long = span.seconds - span.error > longest.get(span.kind, span.seconds)
        if is_long or not span.step.is_verified:
            hit.append(span)
            quiet = 0
        elif hit:
            quiet += 1
        if quiet == _QUIET and not disturbance.is_held:
            break
    return hit


def _first(
    disturbance: Disturbance, hit: Sequence[_Span], longest: Mapping[str, float]
) -> Instant | None:
    """Return the first observation: by an observer, or of a step that does not end in its time.

    Where a port lost its carrier, no step counts: one may be late for another reason, before the
    light went.
    """
    seen = list(disturbance.noticed)
    for span in () if disturbance.lost else hit[:1]:
        late = longest.get(span.kind)
        if late is None or not span.step.is_verified:
            seen.append(span.step.end)
        else:
            early = max(span.begin.early + late, disturbance.begin.early)
            seen.append(Instant(early, max(span.begin.late + late, early)))
    return min(seen, key=lambda at: at.late, default=None)


def _back(disturbance: Disturbance, watched: Sequence[_Span], hit: Sequence[_Span]) -> Step | None:
    """Return the first verified step that ended after the effect was over.

    Where no step was long, only one that also began after all that was noticed can say so.
    """
    over = [at.late for at in (*disturbance.lost, *disturbance.restored)]
    if disturbance.is_held and disturbance.end is not None:
        over.append(disturbance.end.early)
    if hit:
        over.append(hit[-1].begin.late)
        late = [span for span in watched if span.step.end.early > max(over)]
    else:
        over.append(disturbance.begin.late)
        late = [span for span in watched if span.begin.early > max(over)]
    return next((span.step for span in late if span.step.is_verified), None)
