"""Find the delay from which StragglAR is faster than a ring, from arms that differ in delay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from testbed.analysis.grouping import grouped
from testbed.analysis.metric_definitions import size_name
from testbed.analysis.trial import TrialResult
from testbed.collectives.algorithms import COMPARED, REFERENCE
from testbed.plugins import kind
from testbed.schema import Arm

Point = tuple[float, float]
"""A delay as it was measured, and by how many seconds StragglAR took longer than the ring."""


def with_crossings(arms: Sequence[Arm], trials: Sequence[TrialResult]) -> list[TrialResult]:
    """Return the trials, with `critical_delay` added to those of each sweep's arm without delay.

    The first trials of all arms of a sweep give the first value, the second ones the second; where
    one of them has no result, the value is missing.
    """
    of_arm = grouped(trials, lambda trial: trial.arm)
    found: dict[int, float] = {}
    for base in arms:
        if (size := _size(base)) is None:
            continue
        members = [of_arm.get(arm.name, []) for arm in arms if _is_of_sweep(base, arm)]
        for group in zip(*members, strict=False) if len(members) > 1 else ():
            first = next(trial for trial in group if trial.arm == base.name)
            at = crossing([point for trial in group if (point := _point(trial, size)) is not None])
            if at is not None and all(trial.counts for trial in group):
                found[first.number] = at
    return [
        replace(trial, values={**trial.values, "critical_delay": found[trial.number]})
        if trial.number in found
        else trial
        for trial in trials
    ]


def crossing(points: Iterable[Point]) -> float | None:
    """Return the delay at which the interpolated time difference is zero.

    None where StragglAR is not slower at one delay and faster at the next: then no crossing was
    measured.
    """
    for (delay, longer), (next_delay, next_longer) in pairwise(sorted(points)):
        if longer > 0 >= next_longer:
            return delay + (next_delay - delay) * longer / (longer - next_longer)
    return None


def _size(base: Arm) -> str | None:
    """Return the name of the largest size of an arm that can be the begin of a sweep, or None."""
    jobs = list(base.experiment.jobs.values())
    if len(jobs) != 1 or base.experiment.faults:
        return None
    if not {COMPARED, REFERENCE} <= set(getattr(jobs[0].options, "algorithms", ())):
        return None
    return size_name(max(jobs[0].options.sizes))


def _is_of_sweep(base: Arm, arm: Arm) -> bool:
    """Return whether an arm is another one but for a delay of the rank that is expected last."""
    same = (arm.experiment.jobs, arm.overrides) == (base.experiment.jobs, base.overrides)
    (job,) = base.experiment.jobs.values()
    asked = job.options.straggler
    expected = job.options.ranks - 1 if asked is None else asked
    faults = arm.experiment.faults
    roles = ((kind("faults", one.kind).role, one.target.rank) for one in faults)
    late = [role == ("slows", expected) for role in roles]
    return same and late in ([], [True])


def _point(trial: TrialResult, size: str) -> Point | None:
    names = ("skew", f"total_{COMPARED}_{size}", f"total_{REFERENCE}_{size}")
    delay, ours, rings = (_number(trial.values, name) for name in names)
    return None if delay is None or ours is None or rings is None else (delay, ours - rings)


def _number(values: Mapping[str, float | str], name: str) -> float | None:
    value = values.get(name)
    return None if isinstance(value, str) else value
