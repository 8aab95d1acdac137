"""What the controller of rails commands, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.control.controller import OwnCommand, OwnObservation
from testbed.fabric.circuits import Matching
from testbed.rails.forwarding import Costs
from testbed.rails.rail import Move
from testbed.rails.stage import Stage


@dataclass(frozen=True, slots=True)
class RailMoved(OwnObservation):
    """A change of a rail was made and read back."""

    rail: str
    number: int


@dataclass(frozen=True, slots=True)
class RailRefused(OwnObservation):
    """A change of a rail failed; what it adds is not lit."""

    rail: str
    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class MoveRail(OwnCommand):
    """Remove circuits of a rail, then add others; the outcome is RailMoved or RailRefused.

    What changes of one rail remove is gone in the order of the commands; what they add takes its
    time side by side.
    """

    rail: str
    move: Move


@dataclass(frozen=True, slots=True)
class RecordHeld(OwnCommand):
    """Record that a stage, for which all its ranks have left, is held back for some `seconds`.

    A change for it that a timer decides on names this record as its cause.
    """

    rail: str
    stage: Stage
    seconds: float


@dataclass(frozen=True, slots=True)
class RecordDecision(OwnCommand):
    """Record that stages are forwarded from now on, or no longer, and what an iteration costs.

    `paths` has the circuits over which each group is forwarded that is not at home there.
    """

    forward: bool
    costs: Costs
    paths: Mapping[str, Matching]


@dataclass(frozen=True, slots=True)
class RecordAnswer(OwnCommand):
    """Record that the ranks of a stage are told that its circuits are lit.

    `seconds` is how long after the last request that it needed, 0 where nothing had to change.
    """

    rail: str
    stage: Stage
    changed: bool
    seconds: float
