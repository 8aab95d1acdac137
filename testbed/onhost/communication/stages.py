"""Stages of traffic on a rail: operations of some ranks of a group, with no others between them."""

from __future__ import annotations

from typing import NamedTuple, Optional, Protocol


class Stage(NamedTuple):
    """A stage, the same on all its `ranks`; `number` counts the stages of these in the group."""

    group: str
    number: int
    ranks: tuple[int, ...]
    place: int = 0
    """Which of these stages in an iteration it is; below 0 outside of any."""


class Stages(Protocol):
    """What a rank does where stages begin and end."""

    def reached(self, stage: Stage) -> float:
        """Wait until the stage's circuits are lit; return since when this rank knows. Raise Left.

        The instant is one of the monotonic clock.
        """

    def left(self, stage: Stage, following: Optional[Stage]) -> None:
        """Take note that the rank's traffic in a stage has ended, and which is next, if known."""
