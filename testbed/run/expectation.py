"""The links as the ranks' probes measured them, and the predictions for a trial from them."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from testbed.collectives.cost import Links
from testbed.jobs.contracts import PredictableJob, RailsJob, SizesJob, SlotsJob, StepJob
from testbed.run.fault_injection import made_fault
from testbed.run.planning.fault_plans import breaks
from testbed.run.planning.prediction import LinkRate, Physics, on_rails, predict
from testbed.run.planning.profiles import expectations, recovery, standby
from testbed.run.planning.steps import FaultPlan
from testbed.run.reported_profiles import reported_profiles
from testbed.run.running_job import RunningJob
from testbed.schema import Arm

Probe = Mapping[str, Any]
"""What one rank measured of the link to its successor."""


@dataclass(frozen=True, slots=True)
class ProbedLinks:
    """The measured rate and latency of the links of a running job."""

    slowest: LinkRate
    """What the slowest link delivers, and the credit that its short messages showed."""
    cost: Links
    """What messages cost between neighbours, by the median of the probes."""
    changes: tuple[float, ...]
    """The seconds of each change of circuits that the ranks timed, by the median of the ranks."""
    at_once: bool = False
    """All ranks of a host sent over its port at once, as they do in a mesh."""

    @classmethod
    def of(cls, probes: Sequence[Probe]) -> ProbedLinks:
        """Combine the probes of all ranks."""
        there_and_back = statistics.median(probe["short_seconds"] for probe in probes)
        per_byte = [probe["long_seconds"] / probe["long_bytes"] for probe in probes]
        timed = [probe.get("changes", []) for probe in probes]
        changes = _by_change(timed)
        delta = statistics.median(changes) if changes else 0.0
        credit = statistics.median(probe.get("credit", 0.0) for probe in probes)
        cost = Links(there_and_back / 2, statistics.median(per_byte), delta, credit)
        worst = max(probes, key=lambda probe: probe["long_seconds"] / probe["long_bytes"])
        rate = worst["long_bytes"] * 8 / worst["long_seconds"]
        earned = worst["short_bytes"] - worst["short_seconds"] * rate / 8
        at_once = any("dimensions" in probe for probe in probes)
        return cls(LinkRate(rate, max(0.0, earned)), cost, changes, at_once)

    def with_changes(self, timed: Collection[Sequence[float]]) -> ProbedLinks:
        """Return the same links, with what each rank timed of changes while the job ran."""
        changes = _by_change(timed)
        if not changes:
            return self
        return replace(
            self,
            cost=replace(self.cost, reconfiguration=statistics.median(changes)),
            changes=changes,
        )


def _by_change(timed: Collection[Sequence[float]]) -> tuple[float, ...]:
    """Return the median over the ranks for each change, up to the last that all of them timed."""
    return tuple(statistics.median(one) for one in zip(*timed, strict=False))


@dataclass(frozen=True, slots=True)
class Predictor:
    """Predicts the trials of an arm. `start` is the start time of a cold spare in seconds."""

    arm: Arm
    links: ProbedLinks
    physics: Physics
    start: float
    on_twin: bool

    def terms(self, fault: FaultPlan | None, job: RunningJob, step: float) -> Mapping[str, Any]:
        """Return the prediction for a trial whose median step took `step` seconds so far.

        It has the terms of the recovery time, or `values` by metric; it is empty where there is no
        prediction.
        """
        if isinstance(job.job, PredictableJob) or fault is None or not breaks(fault.kind):
            return self._of_metrics(fault, job, step)
        under: Callable[[Physics], Mapping[str, float]] = partial(
            predict,
            fault.kind,
            heartbeat=job.heartbeat,
            state_bytes=job.state_bytes,
            link=self.links.slowest,
            step=step,
            start=self._start(job),
            hold=fault.hold or 0.0,
            recovery=recovery(self.arm, job.name),
        )
        if job.fabric == "packet":
            return under(_without_circuits(self.physics))
        if groups := _most_groups_on_rails(job):
            under = partial(_on_rails, under, groups)
        rows = expectations(reported_profiles(), self.physics, under)
        elsewhere = list(rows) if self.on_twin else []
        return {**under(self.physics), "profiles": elsewhere}

    def _start(self, job: RunningJob) -> float:
        """Return the seconds that processes take to start in a recovery of a job."""
        if recovery(self.arm, job.name).restarts:
            return job.start_seconds
        return self.start if standby(self.arm) == "cold" else 0.0

    def _of_metrics(
        self, fault: FaultPlan | None, job: RunningJob, step: float
    ) -> Mapping[str, Any]:
        """Return what the cost model expects of the job's metrics.

        Nothing where a rank is late by an unknown time, or where the model does not know the job.
        """
        late: dict[int, float] = {}
        if fault is not None:
            seconds = getattr(made_fault(self.arm.experiment, fault.entry), "late", None)
            if seconds is None:
                return {}
            late[fault.rank] = seconds
        links, values = self.links.cost, dict[str, float]()
        if isinstance(job.job, PredictableJob):
            values |= job.job.predict(links, late)
            if isinstance(job.job, SlotsJob):
                values |= job.job.predict_slots(links, self.physics.settle + self.physics.link_up)
        elif isinstance(job.job, StepJob):
            values |= job.job.predict_steps(links, late, step, job.state_bytes)
        elif isinstance(job.job, SizesJob) and not late:
            values |= job.job.predict_sizes(links)
        if len(self.arm.experiment.jobs) > 1 and (mean := mean_step(values)):
            values["mean_step_time"] = mean
        terms = {"alpha": links.alpha, "beta": links.beta}
        if changes := self.links.changes:
            terms |= {"delta": links.reconfiguration, "credit": links.credit}
            terms |= {"changes": len(changes), "fastest": min(changes), "slowest": max(changes)}
        return {"values": values, **terms} if values else {}


def mean_step(values: Mapping[str, float]) -> float | None:
    """Return the mean step of a job by what is predicted of it; None where nothing says it.

    Of timed collectives in turn it is the mean of their times.
    """
    for name in ("straggling_step_time", "step_time"):
        if name in values:
            return values[name]
    for of_all in ("total_", "time_"):
        if times := [seconds for name, seconds in values.items() if name.startswith(of_all)]:
            return statistics.fmean(times)
    return None


def _without_circuits(physics: Physics) -> Physics:
    return replace(physics, settle=0.0, link_up=0.0)


def _on_rails(
    under: Callable[[Physics], Mapping[str, float]], groups: int, physics: Physics
) -> Mapping[str, float]:
    return on_rails(under(_without_circuits(physics)), physics, groups)


def _most_groups_on_rails(job: RunningJob) -> int:
    """Return of how many groups on rails a rank is, at most; 0 without rails."""
    hosts, groups = job.hosts, job.job.groups if isinstance(job.job, RailsJob) else {}
    apart = [ranks for ranks in groups.values() if len({hosts[rank] for rank in ranks}) > 1]
    return max(Counter(rank for ranks in apart for rank in ranks).values(), default=0)
