"""Find checks on metrics that no trial will have, before a run; pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.analysis.limit_dimensions import NEAR, dimension_mismatch
from testbed.analysis.metric_definitions import (
    METRICS,
    NAMED_END,
    PREDICTED,
    RAILS,
    MetricDefinition,
    is_of_size,
    meaning,
    own_metrics,
)
from testbed.errors import FileError
from testbed.plugins import kind, kinds, nearest
from testbed.run.planning.fault_plans import job_fault, job_faults
from testbed.schema import Arm, Condition, Experiment, Fault
from testbed.schema.validation import Problem, schema_error
from testbed.units import SHARE

_OF_A_FAULT = ("recovery_time", "return_to_service", "dip", "plateau")
"""Metrics of a trial in which something was broken."""

_OF_A_REPAIR = (
    *(
        "fabric_ready",
        "detection",
        "fencing",
        "planning",
        "commanding",
        "reconfiguration",
        "leaving",
    ),
    *("waiting", "joining", "resuming", "restoring", "first_step", "lost_steps", "caught_up"),
)
"""Metrics of a trial in which a policy repaired what was broken."""

_OF_A_SUM = ("straggling_step_time", "communication_share", "collective_gain", "step_gain")
_OF_A_DELAY = (*_OF_A_SUM, "gain_agreement")
_WITHOUT_DELAY = dict.fromkeys(_OF_A_DELAY, "no rank is slowed down")
"""Metrics of training in which a rank is slowed down."""


@dataclass(frozen=True, slots=True)
class _ArmMetrics:
    """What the trials of an arm measure: each metric that it may have a check on."""

    arm: str
    known: Mapping[str, MetricDefinition]
    predicted: frozenset[str] | None
    """Those that the model predicts; None where its jobs do not declare them."""
    any_size: bool
    """Its jobs do not declare which message sizes they measure."""
    job: str
    lacks: Mapping[str, str]
    """By metric that its trials cannot have, why."""
    remedy: str = ""
    """What to write in the experiment to get the metrics of a recovery with a spare host."""

    def meaning(self, metric: str) -> MetricDefinition:
        """Return the definition of a metric that trials of the arm may have."""
        return self.known.get(metric) or meaning(metric)

    def problem(self, metric: str) -> tuple[str, str]:
        """Return why no trial of the arm has a metric, and a hint; empty if a trial may have it."""
        if metric in self.known or (self.any_size and is_of_size(metric)):
            return "", ""
        if metric not in METRICS and not is_of_size(metric):
            return f"{metric!r} is not a metric", _nearest(metric, self.known)
        why = self.lacks.get(metric, f"{self.job} does not measure it")
        takes_a_spare = self.remedy and metric in _OF_A_FAULT + _OF_A_REPAIR
        hint = self.remedy if takes_a_spare else _nearest(metric, self.known)
        return f"no trial of {self.arm} has {metric!r}: {why}", hint

    def unpredicted(self, metric: str) -> tuple[str, str]:
        """Return why a metric has no prediction, and a hint; empty if it may have one."""
        if self.predicted is None or metric in self.predicted:
            return "", ""
        known = sorted(self.predicted & self.known.keys())
        there = _nearest(metric, known) if known else "compare it with a value, as in median: …"
        return f"nothing predicts {metric!r} in the trials of {self.arm}", there


def _nearest(metric: str, known: Iterable[str]) -> str:
    """Return a hint with the known metric of nearly the same name, or with all known ones.

    The names must be very similar: a suggestion of another quantity, such as `leaving` for
    `loading`, would be a valid check of something that was not asked for.
    So would be that of another size.
    """
    names = list(known)
    if is_of_size(metric):
        quantity = metric.rpartition("_")[0]
        alike = [name for name in names if name.rpartition("_")[0] == quantity]
        return nearest("", alike or names)
    return nearest(metric, names, cutoff=0.8)


def check_metrics(experiment: Experiment) -> None:
    """Raise SchemaError for checks on metrics that no trial has, or with limits that do not fit.

    The error has every problem found.
    """
    metrics = {
        name: _metrics_of(experiment, name, *one) for name, one in experiment.measured().items()
    }
    if found := list(_problems(experiment, metrics)):
        raise schema_error(experiment.source, found)


def _problems(experiment: Experiment, metrics: Mapping[str, _ArmMetrics]) -> Iterator[Problem]:
    names = experiment.arm_names()
    for key, statistics in experiment.checks.items():
        arm, _, metric = key.rpartition(".")
        mine = metrics[names[arm]]
        message, hint = mine.problem(metric)
        if message:
            yield Problem(("checks", key), message, hint, at_key=True)
            continue
        for statistic, condition in statistics.conditions().items():
            said, hint = "", ""
            if not isinstance(condition, Condition):
                other, _, name = condition.rpartition(".")
                said = _mismatch(metric, mine, name, metrics[names[other]])
            elif statistics.ratio and statistic.startswith("ratio_"):
                over = statistics.ratio.over
                found = (_ratio_problem(metric, mine, one, metrics, names) for one in over)
                said = next((problem for problem in found if problem), "")
                if not said and condition.dimension not in (None, SHARE):
                    said = f"{condition.text!r} is no ratio: write it as '<= 1.05' or '<= 105 %'"
            elif not (
                said := dimension_mismatch(metric, mine.meaning(metric), statistic, condition)
            ):
                said, hint = mine.unpredicted(metric) if statistic == NEAR else ("", "")
            if said:
                yield Problem(("checks", key, statistic), said, hint)


def _ratio_problem(
    metric: str,
    mine: _ArmMetrics,
    over: str,
    metrics: Mapping[str, _ArmMetrics],
    names: Mapping[str, str],
) -> str:
    other, _, name = over.rpartition(".")
    if not mine.meaning(metric).unit:
        return f"{metric} is text, of which there is no ratio"
    return _mismatch(metric, mine, name, metrics[names[other]])


def _mismatch(metric: str, mine: _ArmMetrics, other: str, theirs: _ArmMetrics) -> str:
    """Return why two metrics cannot be the same, or nothing where they may be."""
    message, hint = theirs.problem(other)
    if message:
        return f"{message}; {hint}"
    units = mine.meaning(metric).unit, theirs.meaning(other).unit
    if units[0] == units[1]:
        return ""
    without_unit = {"": "text", "1": "a number"}
    mine_is, theirs_is = (without_unit.get(unit, f"in {unit}") for unit in units)
    return f"{metric} ({mine_is}) and {other} ({theirs_is}) cannot be compared"


def _metrics_of(experiment: Experiment, arm_name: str, arm: Arm, job: str) -> _ArmMetrics:
    """Return what the trials of an arm measure of one of its jobs."""
    spec, options = arm.experiment, arm.experiment.jobs[job].options
    fault = job_fault(spec, job)
    role = "" if fault is None else kind("faults", fault.kind).role
    has_delay = role == "slows"
    # Something that only slows a rank down can be recovered from once it is over.
    has_fault = fault is not None and (not has_delay or bool(fault.hold))
    remedy = ""
    lacks = dict.fromkeys(_BESIDE_OTHERS, "no other job runs beside this one")
    if len(spec.jobs) > 1:
        lacks = {"mean_step_time": "that is of jobs which nothing strikes"}
    lacks |= _lacks_of_a_delay(spec, job) if has_delay else _WITHOUT_DELAY
    if not has_fault:
        lacks |= dict.fromkeys(_OF_A_FAULT + _OF_A_REPAIR, "nothing is broken in its trials")
    elif not any(one.job == job and "membership" in one.acts_on for one in spec.reacting()):
        lacks |= dict.fromkeys(_OF_A_REPAIR, "no policy repairs anything")
        if fault is not None and _loses_a_rank(spec, fault):
            why = f"no policy replaces the rank of job {fault.job} that fails"
            lacks |= dict.fromkeys(_OF_A_FAULT, why)
    elif fault is not None and (policy := _policy_without_spare(spec, fault)):
        why = f"{policy} replaces a rank by a spare host, and job {fault.job} has none"
        lacks |= dict.fromkeys(_OF_A_FAULT + _OF_A_REPAIR, why)
        remedy = f"write `spares: 1` in job {fault.job}"
    if not any(one.job == job for one in spec.faults):
        lacks[NAMED_END] = "nothing is broken in its trials"
    known = {n: METRICS[n] for n in METRICS if n in _CONDITIONAL and n not in lacks}
    known |= _of_job(experiment, arm, job)
    if len(spec.jobs) > 1:
        if "step_time" in known:
            known["collective_share"] = METRICS["collective_share"]
        if "steps" in known and not has_fault:
            known["mean_step_time"] = METRICS["mean_step_time"]
            if any(kind("faults", one.kind).role != "slows" for one in spec.faults):
                known["dip"] = METRICS["dip"]
    predicted = _predicted(options, breaks=has_fault and not has_delay, has_delay=has_delay)
    if predicted is not None and not has_fault:
        predicted |= _of_replays(spec, job) | _of_mean_steps(spec, predicted)
    mine = [one for one in job_faults(spec) if one.job == job]
    of_several = len(mine) > 1 or any(one.target.group for one in mine)
    if of_several and predicted is not None:
        predicted = frozenset()
    any_size = not hasattr(options, "measures") or getattr(options, "any_size", False)
    said = f"job {job} ({spec.jobs[job].kind})"
    return _ArmMetrics(arm_name, known, predicted, any_size, said, lacks, remedy)


def _of_mean_steps(spec: Experiment, predicted: frozenset[str]) -> frozenset[str]:
    """Return the mean step, where several jobs run and its steps or collectives are predicted."""
    steps = [name for name in predicted if name.startswith(_SAY_A_STEP)]
    return frozenset(("mean_step_time",) if steps and len(spec.jobs) > 1 else ())


def _of_replays(spec: Experiment, job: str) -> frozenset[str]:
    """Return what is predicted of a job on rails, from the arm with the least delay."""
    on_rails = any(one.kind == RAILS and one.job == job for one in spec.reacting())
    return frozenset(("iteration_time", "mean_step_time") if on_rails else ())


def _lacks_of_a_delay(spec: Experiment, job: str) -> dict[str, str]:
    """Return what only controllers yield that the job does not have, while a rank is late."""
    own = getattr(spec.jobs[job].options, "controllers", ())
    acting = {*own, *(one.kind for one in spec.reacting() if one.job == job)}
    others = {name: one for name, one in kinds("controllers").items() if name not in acting}
    return {
        metric: f"no controller {name} acts on {job}"
        for name, one in others.items()
        for metric in one.measures
    }


def _policy_without_spare(spec: Experiment, fault: Fault) -> str:
    """Return the policy that must replace a rank after a fault but has no spare, or nothing."""
    if not _loses_a_rank(spec, fault) or spec.jobs[fault.job].options.spares != 0:
        return ""
    known = kind("faults", fault.kind).fault
    policies = (one.kind for one in spec.reacting() if one.job == fault.job and one.is_policy)
    return next((p for p in policies if kind("policies", p).recovery.takes_spare(known)), "")


def _loses_a_rank(spec: Experiment, fault: Fault) -> bool:
    """Return whether a rank, of a job whose ranks can be replaced, does not come back by itself."""
    is_replaceable = hasattr(spec.jobs[fault.job].options, "spares")
    repair = kind("faults", fault.kind).fault.repair
    return is_replaceable and repair == "spare" and fault.hold is None


def _predicted(options: Any, *, breaks: bool, has_delay: bool) -> frozenset[str] | None:
    """Return the metrics that the model expects something of, as `Predictor` asks it."""
    if not hasattr(options, "measures"):
        return None
    if hasattr(options, "predicts"):
        return frozenset() if breaks else frozenset(options.predicts())
    paced = ("step_time",) if getattr(options, "predicts_step_time", False) else ()
    sizes = () if has_delay else getattr(options, "predicted_sizes", ())
    return frozenset(PREDICTED if breaks else (*paced, *sizes, *(_OF_A_SUM if has_delay else ())))


def _of_job(experiment: Experiment, arm: Arm, job: str) -> dict[str, MetricDefinition]:
    """Return what a job of an arm measures by itself; raise FileError for a known name."""
    options = arm.experiment.jobs[job].options
    measures = getattr(options, "measures", None)
    # A job that declares no metrics may measure any known one.
    any_known = (name for name in METRICS if name not in _CONDITIONAL)
    found = {name: meaning(name) for name in (any_known if measures is None else measures())}
    for name, own in own_metrics(options).items():
        if name in METRICS or is_of_size(name):
            where = experiment.source.where("jobs", job, "metrics", name)
            message = f"{name!r} is already the name of a metric of the testbed"
            raise FileError(where, message, hint="give the program's metric another name")
        found[name] = own
    return found


_SAY_A_STEP = ("step_time", "total_", "time_")
"""Metrics, or their beginnings, whose prediction is one of a step, too (`run.expectation`)."""

_BESIDE_OTHERS = ("collective_share", "mean_step_time")
"""Metrics of jobs that run side by side; the latter of those that no fault strikes."""

_CONDITIONAL = {NAMED_END, *_BESIDE_OTHERS, *_OF_A_FAULT, *_OF_A_REPAIR, *_OF_A_DELAY}
