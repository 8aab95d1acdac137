"""What the orchestrator must know of a job before its ranks run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Job(Protocol):
    """A kind of job, made from its options."""

    ranks: int
    spares: int
    topology: str
    last_step: int | None
    """The step after which it is told to end; None when it ends by itself or never."""
    endless: bool
    """It lives on from trial to trial; a job with an end starts anew in each."""

    def for_rank(self) -> Mapping[str, Any]:
        """Return what a rank is configured with: the name of its program and its options."""
