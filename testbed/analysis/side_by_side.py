"""The results of a trial with several jobs side by side: of each its own, and what it felt."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from testbed.analysis.clocks import Clocks
from testbed.analysis.steps import Span
from testbed.analysis.trial import TrialResult, analyse_trial
from testbed.analysis.trial_events import TrialEvents
from testbed.events import Event


def analyse_jobs(number: int, trial: TrialEvents, clocks: Clocks) -> Iterator[TrialResult]:
    """Yield the result of one trial, or of each of its jobs where it has several.

    A job that nothing struck has `mean_step_time` and, where another recovered, `dip`. Steps that
    began before a rank of the trial was slowed down do not count in them: without another fault the
    mean is over the whole trial, and else over a part that is later.
    """
    if not trial.jobs:
        yield analyse_trial(number, trial, clocks)
        return
    jobs = [analyse_trial(number, trial.of(job), clocks, job) for job in trial.jobs]
    struck = [job.marks.at for job in jobs if job.marks and "t0" in job.marks.at]
    began = next(event.t for event in trial.others if event.kind == "trial.begin")
    first = max([began, *(at["t0"].early for at in struck)])
    slowed = slowed_at(trial.others, first if struck else math.inf)
    last = max((at["t11"].late if "t11" in at else math.inf for at in struck), default=math.inf)
    for job in jobs:
        if job.marks is not None:
            yield job
            continue
        found = {"mean_step_time": mean_step_time(job.step_spans, first, last, slowed)}
        if struck and last < math.inf:
            found["dip"] = lost_work(job.step_spans, first, last, slowed)
        felt = {name: value for name, value in found.items() if value is not None}
        yield replace(job, values={**job.values, **felt})


def slowed_at(events: Iterable[Event], struck: float) -> float:
    """Return when a rank was slowed down last before a job was struck; −∞ where none was.

    One that is slowed down later takes none of what the other jobs felt of the failure.
    """
    slowing = (e.t for e in events if e.kind == "fault.inject" and not e.data.get("breaks", True))
    return max((at for at in slowing if at <= struck), default=-math.inf)


def lost_work(
    spans: Mapping[str, Sequence[Span]], first: float, last: float, slowed: float = -math.inf
) -> float | None:
    """Return how many seconds longer than usual the steps under way in an interval took in all.

    Usual is the median of the steps of their kind that had ended before it; None where there is
    none, and for no step. Below zero, they were quicker.
    """
    lost = []
    for of_kind in spans.values():
        each = [span for span in of_kind if span.begin >= slowed]
        before = [(span.end - span.begin) / span.steps for span in each if span.end <= first]
        under_way = [span for span in each if span.end > first and span.begin < last]
        if under_way and not before:
            return None
        usual = statistics.median(before) if before else 0.0
        lost += [span.end - span.begin - usual * span.steps for span in under_way]
    return sum(lost) if lost else None


def mean_step_time(
    spans: Mapping[str, Sequence[Span]], first: float, last: float, slowed: float = -math.inf
) -> float | None:
    """Return the mean time of the steps that were under way in an interval; None for no step.

    Those that began before `slowed`, when a rank began to come late, do not count. Of steps of
    several kinds, as of timed collectives in turn, it is the mean of the kinds' means: so it does
    not depend on how many of each were under way. None where one kind was not.
    """
    means = []
    for of_kind in spans.values():
        slow = [span for span in of_kind if span.begin >= slowed]
        under_way = [span for span in slow if span.end > first and span.begin < last]
        if not under_way:
            return None
        seconds = sum(span.end - span.begin for span in under_way)
        means.append(seconds / sum(span.steps for span in under_way))
    return statistics.fmean(means) if means else None
