"""What the models expect of a trial, from the links as they were probed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from testbed.jobs.contracts import PredictableJob, StepJob
from testbed.run.fault_injection import made_fault
from testbed.run.link_probes import ProbedLinks
from testbed.run.planning.fault_plans import breaks
from testbed.run.planning.prediction import Physics, predict
from testbed.run.planning.profiles import expectations, standby
from testbed.run.planning.steps import FaultPlan
from testbed.run.running_job import RunningJob
from testbed.schema import Arm


@dataclass(frozen=True, slots=True)
class Predictor:
    """The models for the trials of an arm. `start` is how long a cold spare takes to start."""

    arm: Arm
    links: ProbedLinks
    physics: Physics
    start: float
    on_twin: bool

    def terms(self, fault: FaultPlan | None, job: RunningJob, step: float) -> Mapping[str, Any]:
        """Return what is expected where the median step took `step` seconds so far.

        The terms of the recovery time, or `values` by metric; nothing where nothing is expected.
        """
        if isinstance(job.job, PredictableJob) or fault is None or not breaks(fault.kind):
            return self._of_metrics(fault, job, step)
        under = partial(
            predict,
            fault.kind,
            heartbeat=job.heartbeat,
            state_bytes=job.state_bytes,
            link=self.links.slowest,
            step=step,
            start=self.start if standby(self.arm) == "cold" else 0.0,
            hold=fault.hold or 0.0,
        )
        elsewhere = list(expectations(self.physics, under)) if self.on_twin else []
        return {**under(self.physics), "profiles": elsewhere}

    def _of_metrics(
        self, fault: FaultPlan | None, job: RunningJob, step: float
    ) -> Mapping[str, Any]:
        """Return what the cost model expects of the job's metrics.

        Nothing where a rank is late by an unknown time, or where the model does not know the job.
        """
        late: dict[int, float] = {}
        if fault is not None:
            seconds = getattr(made_fault(self.arm.experiment), "late", None)
            if seconds is None:
                return {}
            late[fault.rank] = seconds
        links, values = self.links.cost, dict[str, float]()
        if isinstance(job.job, PredictableJob):
            values |= job.job.predict(links, late)
        elif isinstance(job.job, StepJob) and late and step:
            values |= job.job.predict_steps(links, late, step, job.state_bytes)
        terms = {"alpha": links.alpha, "beta": links.beta}
        if changes := self.links.changes:
            terms |= {"delta": links.reconfiguration, "credit": links.credit}
            terms |= {"changes": len(changes), "fastest": min(changes), "slowest": max(changes)}
        return {"values": values, **terms} if values else {}
