"""What a number means, which nobody may guess."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Better = Literal["lower", "higher", "neither"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """The unit of a metric, which direction is better, and what it is."""

    unit: str
    better: Better
    what: str
