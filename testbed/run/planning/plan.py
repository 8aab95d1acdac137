"""A plan: all steps of a run as plain data, which can be printed, compared and hashed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from typing import Any

from testbed.fabric.circuits import Circuit
from testbed.run.planning.arm_plans import PlannedArm
from testbed.run.planning.steps import OpenHosts, RunTrial, Step


@dataclass(frozen=True, slots=True)
class Avoided:
    """A host that the plan avoids: its quarantined resource, the end of that, and the reason."""

    host: str
    what: str
    until: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fences:
    """The fences to try for a failed host, in order, by the kind of failure.

    The list is empty where the lab permits none: then the policy gives up.
    """

    hosts: tuple[str, ...]
    rank: tuple[str, ...]
    """When a rank failed, and the agent beside it answers."""
    dead: tuple[str, ...]
    """When a host went dark and does not answer."""
    unreachable: tuple[str, ...]
    """When a host does not answer, and nothing else is known."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a run, in order, and the seed that every draw came from."""

    experiment: str
    lab: str
    seed: int
    steps: tuple[Step, ...]
    avoided: tuple[Avoided, ...] = ()
    fences: tuple[Fences, ...] = ()
    """Empty where nothing recovers jobs, which alone fences hosts."""
    arms: tuple[PlannedArm, ...] = ()
    """Empty where the trials are computed from a model."""

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values; each step names its kind."""
        named = [{"do": type(step).__name__} | _as_mapping(step) for step in self.steps]
        whole = {"format": 1} | _as_mapping(self) | {"steps": named}
        kept = {key: value for key, value in whole.items() if value != ()}
        plan: dict[str, Any] = json.loads(json.dumps(kept, default=_as_mapping))
        return plan

    def digest(self) -> str:
        """Return a hash of the plan; equal plans have equal hashes."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def on_paper(self) -> bool:
        """Return whether the trials are computed from a model, without opening a device."""
        return not any(isinstance(step, OpenHosts) for step in self.steps)

    @property
    def trials(self) -> tuple[RunTrial, ...]:
        """Return the trials, in order."""
        return tuple(step for step in self.steps if isinstance(step, RunTrial))


def _as_mapping(value: Any) -> dict[str, Any]:
    """Return the fields of one dataclass, with what is in them as it is: `asdict` copies all.

    Of the fibres that a circuit passes there are the names, and no key where there are none.
    """
    if isinstance(value, Circuit):
        via = {"via": [pair.name for pair in value.via]} if value.via else {}
        return {"a": value.a, "b": value.b} | via
    return {field.name: getattr(value, field.name) for field in fields(value)}
