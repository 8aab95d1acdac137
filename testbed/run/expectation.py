"""What the cost model expects of a trial, from the lines as they were probed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.collectives.cost import Links
from testbed.jobs.contracts import PredictableJob, StepJob
from testbed.plugins import kind
from testbed.run.planning.plan import FaultPlan
from testbed.run.running_job import RunningJob
from testbed.schema import Arm


def expected(
    job: RunningJob, arm: Arm, fault: FaultPlan | None, links: Links, step: float
) -> Mapping[str, Any]:
    """Return what is expected of the job's metrics, where steps took `step` seconds so far.

    Nothing where a rank comes late by nobody knows how much, or where the job is unknown to the
    model.
    """
    late: dict[int, float] = {}
    if fault is not None:
        made = kind("faults", fault.kind).load()(arm.experiment.faults[0].options)
        seconds = getattr(made, "late", None)
        if seconds is None:
            return {}
        late[fault.rank] = seconds
    if isinstance(job.job, PredictableJob):
        values = job.job.predict(links, late)
    elif isinstance(job.job, StepJob) and late and step:
        values = job.job.predict_steps(links, late, step, job.state_bytes)
    else:
        values = {}
    terms = {"alpha": links.alpha, "beta": links.beta}
    if changes := job.changes:
        terms |= {"delta": links.reconfiguration, "credit": links.credit}
        terms |= {"changes": len(changes), "fastest": min(changes), "slowest": max(changes)}
    return {"values": values, **terms} if values else {}
