"""What reacts while jobs run, as an experiment file asks for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from testbed.plugins import RECOVERS, JobPart, kind, kinds
from testbed.schema.plugin_entries import PluginEntry
from testbed.schema.source import Steps
from testbed.schema.text_types import Name


class Policy(PluginEntry):
    """What recovers each job that a fault names: the short form of an entry of `controllers`."""

    kind: str


class Controller(PluginEntry):
    """What reacts while a job runs."""

    kind: str
    job: Name = ""
    """The job it acts on; the only one when the file names none."""


@dataclass(frozen=True, slots=True)
class ControllerSpec:
    """A controller of an experiment: an entry of `controllers`, or its `policy` for one job.

    `name` is its kind, with its job where several are of that kind; `steps` lead to it in the file.
    """

    name: str
    kind: str
    job: str
    options: Any
    steps: Steps

    @property
    def is_policy(self) -> bool:
        """Tell whether it is a recovery policy."""
        return self.kind in kinds("policies")

    @property
    def is_written(self) -> bool:
        """Tell whether the file names it; a job may bring others along."""
        return self.steps[0] != "jobs"

    @property
    def lives_with(self) -> str:
        """Return whether it begins anew in each `trial`, or with its `job`."""
        return kind("controllers", self.kind).lives_with

    @property
    def acts_on(self) -> tuple[JobPart, ...]:
        """Return what of its job it acts on; most recovery policies act on both."""
        acts_on = kind("controllers", self.kind).acts_on
        return acts_on or (RECOVERS if self.is_policy else ())


def controller_specs(
    policy: Policy | None, recovered: Iterable[str], controllers: Iterable[Controller]
) -> tuple[ControllerSpec, ...]:
    """Return what reacts: the policy for each of the `recovered` jobs, then the controllers."""
    found: list[ControllerSpec] = []
    if policy is not None:
        for job in recovered:
            found.append(ControllerSpec("", policy.kind, job, policy.options, ("policy",)))
    for index, one in enumerate(controllers):
        steps = ("controllers", index)
        found.append(ControllerSpec("", one.kind, one.job, one.options, steps))
    return tuple(_named(found))


def _named(specs: list[ControllerSpec]) -> Iterator[ControllerSpec]:
    """Yield the same controllers, each with a name that no other has."""
    of_kind = Counter(spec.kind for spec in specs)
    taken: Counter[str] = Counter()
    for spec in specs:
        name = spec.kind if of_kind[spec.kind] == 1 else f"{spec.kind} of {spec.job}"
        taken[name] += 1
        yield replace(spec, name=name if taken[name] == 1 else f"{name} {taken[name]}")
