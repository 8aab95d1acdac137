"""The attributes of clients, and the constraints of jobs on them."""

from __future__ import annotations

import math
from collections.abc import Mapping

Attributes = Mapping[str, float]
"""What a client has, by name: `{"cpu_f": 6, "ram": 4}`."""
Constraints = tuple[tuple[str, float], ...]
"""The least that a job demands of each attribute, sorted by name. Equal ones make one group."""


def constraints(least: Attributes) -> Constraints:
    """Return constraints in canonical form; raise ValueError for a value that is not finite."""
    for name, value in least.items():
        if not math.isfinite(value):
            raise ValueError(f"the constraint {name} is {value}, and must be finite")
    return tuple(sorted(least.items()))


def is_eligible(attributes: Attributes, demanded: Constraints) -> bool:
    """Return whether a client has at least the demanded value of every attribute.

    One that lacks an attribute, or has no number there, is not eligible.
    """
    # Asked at each offer, where a generator costs as much again.
    for name, least in demanded:  # noqa: SIM110
        if not attributes.get(name, -math.inf) >= least:
            return False
    return True
