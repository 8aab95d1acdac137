"""The results of a trial with several jobs side by side: of each its own, and what it felt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from testbed.analysis.clocks import Clocks
from testbed.analysis.trial import TrialResult, analyse_trial
from testbed.analysis.trial_events import TrialEvents


def analyse_jobs(number: int, trial: TrialEvents, clocks: Clocks) -> Iterator[TrialResult]:
    """Yield the result of one trial, or of each of its jobs where it has several."""
    if not trial.jobs:
        yield analyse_trial(number, trial, clocks)
        return
    jobs = [analyse_trial(number, trial.of(job), clocks, job) for job in trial.jobs]
    struck = [job.marks.at for job in jobs if job.marks and "t0" in job.marks.at]
    began = next(event.t for event in trial.others if event.kind == "trial.begin")
    first = max([began, *(at["t0"].early for at in struck)])
    last = max((at["t11"].late if "t11" in at else math.inf for at in struck), default=math.inf)
    for job in jobs:
        found = _mean(job.step_ends, first, last) if job.marks is None else None
        more = {} if found is None else {"mean_step_time": found}
        yield replace(job, values={**job.values, **more})


def _mean(ends: Mapping[float, int], first: float, last: float) -> float | None:
    """Return the mean time of the steps that were under way in an interval; None for no step."""
    under_way = [(a, b) for a, b in pairwise(sorted(ends)) if b > first and a < last]
    count = sum(ends[b] for _, b in under_way)
    return sum(b - a for a, b in under_way) / count if count else None
