"""The experiment file: jobs, faults, policy, variants and checks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr

from testbed.errors import FileError
from testbed.schema.arm_names import arms_by_name
from testbed.schema.arms import ONLY, ArmDraft, ArmKey, drafts
from testbed.schema.condition import Condition, Statistic, Statistics
from testbed.schema.controllers import Controller, ControllerSpec, Policy, controller_specs
from testbed.schema.lab import Lab
from testbed.schema.lab_overrides import check_changes
from testbed.schema.override import Override
from testbed.schema.plugin_entries import PluginEntry, PluginField
from testbed.schema.source import Source
from testbed.schema.targets import Target as Target
from testbed.schema.text_types import Name, Sentence, Text, spelling
from testbed.schema.twin import check_lasting
from testbed.schema.validation import Document, Problem, SchemaError, StrictModel, schema_error
from testbed.units import TIME, Seconds, Share


class At(StrictModel):
    """The time of a fault: in a step of the job, or so long after the fault before it."""

    step: Annotated[int, Field(ge=1)] | None = None
    """The step during which it fires."""
    after: Annotated[float | None, TIME] = None
    """Seconds since the fault before it was injected."""


class Job(PluginEntry):
    """A job: its kind, options and hosts."""

    kind: str
    hosts: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Hosts of the lab in the order of their ranks, spares last; without it the planner chooses. A
    spare may be on a host that runs a rank."""
    ranks_per_host: Annotated[int, Field(ge=1)] = 1
    """Rank `r` runs on host number `r // ranks_per_host` of the job."""
    shares_hosts_with: tuple[Name, ...] = ()
    """Other jobs whose hosts may be among its own `hosts`."""


class Fault(PluginEntry):
    """A fault to inject: its kind, options, target and time."""

    kind: str
    target: Annotated[Target, Text(Target.parse)]
    at: At
    job: Name = ""
    """The job it is aimed at; the only one when the file names none."""
    hold: Annotated[float | None, TIME] = None
    """How long it lasts; without it, until the end of the trial."""


MAX_TRIALS = 10_000
"""Trials of one run, of all its arms together: those of a month."""


class Needs(StrictModel):
    """The resources that the experiment needs of a lab."""

    hosts: Annotated[int, Field(ge=0)]
    """0 for a model, which runs on none."""
    fabric: Literal["circuit", "packet", "any"] = "circuit"
    attributes: Mapping[Name, float] = {}
    """The least that each host must have of each attribute: of those that the lab file states, and
    of `ports` and `outlets`, which are counted."""


Metric = Annotated[str, spelling(r"(.+\.)?[a-z][a-z0-9_]*", "a metric, as 'arm.recovery_time'")]


class Limits(StrictModel):
    """The time limits of the experiment."""

    trial: Annotated[Seconds, Field(gt=0)] = 60.0
    run: Annotated[Seconds, Field(gt=0)] = 1800.0
    boot: Annotated[Seconds, Field(gt=0)] = 60.0
    """How long a host may take from power-on until its agent answers."""


def _every(text: str) -> int:
    match = re.fullmatch(r"every ([1-9][0-9]{0,5})", text)
    if match is None:
        raise ValueError(f"{text!r} does not say which steps; write 'every 10'")
    return int(match[1])


class Record(StrictModel):
    """How much the event log of a run keeps."""

    steps: Annotated[int, Text(_every, "^every [1-9][0-9]{0,5}$")] = 1
    """Every how many steps of training one is recorded; near a fault all are."""


@dataclass(frozen=True, slots=True)
class Check:
    """One condition on one statistic of one metric of one arm.

    `condition` is the other metric, as `arm.metric`, where the statistic is `same_as`.
    """

    arm: str
    metric: str
    statistic: Statistic
    condition: Condition | str
    over: tuple[str, ...] = ()
    """The other metric, as `arm.metric`, where the statistic is of a ratio; or several."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm of the comparison: its experiment, and its overrides of the lab."""

    name: str
    experiment: Experiment
    overrides: tuple[Override, ...] = ()

    @property
    def lab_overrides(self) -> dict[str, Any]:
        """Return the arm's overrides of the lab: values by dotted key."""
        return {override.key: override.value for override in self.overrides}

    def of(self, lab: Lab) -> Lab:
        """Return the lab with the arm's overrides; raise FileError when it has no such field."""
        return lab.overridden(self.overrides) if self.overrides else lab


class Experiment(Document):
    """An experiment file: what to run on a lab, and what to compare."""

    experiment: Name
    question: Sentence
    lab: Name | None = None
    """The lab to use when none is named on the command line."""
    needs: Needs
    jobs: Annotated[Mapping[Name, Annotated[Job, PluginField("jobs")]], Field(min_length=1)]
    faults: tuple[Annotated[Fault, PluginField("faults")], ...] = ()
    policy: Annotated[Policy, PluginField("policies")] | None = None
    controllers: tuple[Annotated[Controller, PluginField("controllers")], ...] = ()
    variants: Mapping[Name, Mapping[ArmKey, Any]] = {}
    """By name, the fields that each variant sets, by dotted key."""
    matrix: Mapping[ArmKey, Annotated[tuple[Any, ...], Field(min_length=1)]] = {}
    """By dotted key, the values that a field takes; every combination is an arm."""
    trials: Annotated[int, Field(ge=1, le=MAX_TRIALS)] = 1
    """Trials of each arm."""
    checks: Mapping[Metric, Statistics] = {}
    """By `arm.metric`, or `metric` where there is one arm, what must hold; of one of several jobs
    of an arm by `arm.job.metric`."""
    valid_share: Annotated[Share, Field(gt=0, le=1)] = 2 / 3
    """Of the trials of each arm, how many must be valid: with fewer, its checks are not known."""
    limits: Limits = Field(default_factory=Limits)
    record: Record = Field(default_factory=Record)
    keep: bool = False
    """Leave the circuits as they are at the end."""
    seed: Annotated[int, Field(ge=0)] | None = None

    _arms: tuple[Arm, ...] = PrivateAttr(default=())

    @classmethod
    def read(cls, source: Source) -> Self:
        """Return the checked experiment of a file, with its arms; raise SchemaError."""
        experiment = cls._read_one(source)
        experiment._arms = _checked(drafts(source, experiment.variants, experiment.matrix))
        if found := list(experiment._check_problems()):
            raise schema_error(source, found)
        return experiment

    @classmethod
    def _read_one(cls, source: Source) -> Self:
        """Return the experiment of a file without its arms; faults and controllers name jobs."""
        experiment = super().read(source)
        only = next(iter(experiment.jobs))
        named = {
            key: tuple(one.model_copy(update={"job": one.job or only}) for one in entries)
            for key, entries in experiment._of_a_job()
        }
        return experiment.model_copy(update=named)

    def arms(self) -> tuple[Arm, ...]:
        """Return the arms in the order of the file; the only one of an experiment is `only`."""
        return self._arms or (Arm(ONLY, self),)

    def measured(self) -> dict[str, tuple[Arm, str]]:
        """Return each arm and its job by the name that metrics begin with.

        That is the name of the arm, or `arm.job` where it has several jobs.
        """
        return {
            f"{arm.name}.{job}" if len(arm.experiment.jobs) > 1 else arm.name: (arm, job)
            for arm in self.arms()
            for job in arm.experiment.jobs
        }

    def reacting(self) -> tuple[ControllerSpec, ...]:
        """Return what reacts while the jobs run; a policy stands for one of each faulty job."""
        faulty = dict.fromkeys(fault.job for fault in self.faults)
        return controller_specs(self.policy, faulty or [*self.jobs][:1], self.controllers)

    @property
    def recovers(self) -> bool:
        """Tell whether something replaces ranks that have failed."""
        return any("membership" in spec.acts_on for spec in self.reacting())

    def all_checks(self) -> Iterator[Check]:
        """Return every check that the file states, with its arm."""
        names = self.arm_names()
        for key, statistics in self.checks.items():
            arm, _, metric = key.rpartition(".")
            for statistic, condition in statistics.conditions().items():
                if isinstance(condition, str):
                    other, _, name = condition.rpartition(".")
                    condition = f"{names[other]}.{name}"
                over: tuple[str, ...] = ()
                if statistics.ratio and statistic.startswith("ratio_"):
                    parts = (one.rpartition(".") for one in statistics.ratio.over)
                    over = tuple(f"{names[other]}.{name}" for other, _, name in parts)
                yield Check(names[arm], metric, statistic, condition, over)

    def arm_names(self) -> dict[str, str]:
        """Return each arm, with its job where it has several, by the names that a check may use.

        These are its full name, its short name, none, and the job where there is one arm.
        """
        arms = [*self.measured()]
        alone = {name.removeprefix(f"{ONLY}."): name for name in arms}
        return alone | arms_by_name(arms) | {"": arms[0]}

    def inconsistencies(self) -> Iterator[Problem]:
        """Yield contradictions between the parts of the experiment."""
        for name, job in self.jobs.items():
            named: set[str] = set()
            hosts = job.hosts or ()
            first_spare = getattr(job.options, "ranks", len(hosts)) // job.ranks_per_host
            for index, host in enumerate(hosts):
                if index == first_spare:
                    named.clear()
                if host in named:
                    yield Problem(("jobs", name, "hosts", index), f"{host} is listed twice")
                named.add(host)
            for index, other in enumerate(job.shares_hosts_with):
                if other not in self.jobs or other == name:
                    message = f"{other!r} is not another job of this experiment"
                    others = [one for one in self.jobs if one != name]
                    where = ("jobs", name, "shares_hosts_with", index)
                    yield Problem.unknown(where, message, other, others)
        for key, entries in self._of_a_job():
            for index, one in enumerate(entries):
                if not one.job and len(self.jobs) > 1:
                    message = f"the {key[:-1]} names no `job`, and the experiment has several"
                    yield Problem.unknown((key, index), message, "", self.jobs)
                elif one.job and one.job not in self.jobs:
                    message = f"{one.job!r} is not a job of this experiment"
                    yield Problem.unknown((key, index, "job"), message, one.job, self.jobs)
        for index, fault in enumerate(self.faults):
            if (fault.at.step is None) == (fault.at.after is None):
                message = "`at` names a step of the job, or a time after the fault before it"
                hint = "write {step: 20}, or {after: 50 ms} from the second fault on"
                yield Problem(("faults", index, "at"), message, hint)

    def _of_a_job(self) -> Iterator[tuple[str, tuple[Fault | Controller, ...]]]:
        """Yield the lists of entries that each name a job, by key."""
        yield "faults", self.faults
        yield "controllers", self.controllers

    def _check_problems(self) -> Iterator[Problem]:
        arms, names, count = [*self.measured()], self.arm_names(), len(self.arms())
        if count * self.trials > MAX_TRIALS:
            message = f"{count} arms make {count * self.trials} trials together"
            message += f", and there may be at most {MAX_TRIALS}"
            yield Problem(("trials",), message)
        for key, statistics in self.checks.items():
            arm, _, metric = key.rpartition(".")
            if not arm and metric in names:
                hint = f"write a metric after it, as '{metric}.recovery_time'"
                message = f"the check names the arm {metric!r}, but no metric"
                yield Problem(("checks", key), message, hint, True)
            elif not arm and len(arms) > 1:
                hint = f"write '{arms[0]}.{metric}'"
                message = f"the check names no arm, and the experiment has {count}"
                if count == 1:
                    message = f"the check names no job, and the experiment has {len(arms)}"
                yield Problem(("checks", key), message, hint, True)
            other = (statistics.same_as or "").rpartition(".")[0]
            under = statistics.ratio.over if statistics.ratio else ()
            unders = ((one.rpartition(".")[0], "ratio", "over") for one in under)
            for name, *step in ((arm,), (other, "same_as"), *unders):
                if name not in names:
                    message = f"{name!r} is not an arm of this experiment"
                    yield Problem.unknown(("checks", key, *step), message, name, arms, not step)
            if not statistics.conditions() and not other:
                message = "the check states no condition"
                yield Problem(("checks", key), message, "write one, as {every: '< 1 s'}")


def _checked(drafted: list[ArmDraft]) -> tuple[Arm, ...]:
    check_lasting(draft.lab for draft in drafted)
    arms = []
    errors: dict[str, FileError] = {}
    for draft in drafted:
        try:
            check_changes(draft.lab)
            arms.append(Arm(draft.name, Experiment._read_one(draft.source), draft.lab))
        except SchemaError as error:
            errors |= {str(one): one for one in (error, *error.others)}
    if errors:
        raise SchemaError(*errors.values())
    return tuple(arms)
