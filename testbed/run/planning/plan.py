"""A plan: everything that a run will do, as plain data that prints, compares and hashes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from testbed.run.planning.steps import OpenHosts, RunTrial, Step


@dataclass(frozen=True, slots=True)
class Avoided:
    """A host that the plan avoids: what of it is in quarantine, until when, and why."""

    host: str
    what: str
    until: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fences:
    """The fences for hosts, by the kind of failure, in the order in which they are tried.

    None is named where the lab permits none: the policy gives up then.
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
    """Empty without a policy, which alone fences hosts."""

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values; each step names its kind."""
        named = [{"do": type(step).__name__} | asdict(step) for step in self.steps]
        whole = {"format": 1} | asdict(self) | {"steps": named}
        kept = {key: value for key, value in whole.items() if value != ()}
        plan: dict[str, Any] = json.loads(json.dumps(kept))
        return plan

    def digest(self) -> str:
        """Return a hash by which equal plans are known."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def on_paper(self) -> bool:
        """Tell whether nothing is opened: its trials are computed from a model."""
        return not any(isinstance(step, OpenHosts) for step in self.steps)

    @property
    def trials(self) -> tuple[RunTrial, ...]:
        """Return the trials, in order."""
        return tuple(step for step in self.steps if isinstance(step, RunTrial))
