"""Which fence keeps a failed rank from taking part, among those that a lab permits of its host.

What fails decides what is enough, and what is mild enough. A process that fails beside a living
agent is ended. A host that is known to be dead loses its power, so that it stays so. A host of
which nobody knows whether it lives is cut off first, which harms nothing on it, and loses its power
only where all else is forbidden or has failed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from testbed.control.protocol import Means

Failure = Literal["rank", "dead", "unreachable", "off"]
"""A rank ended or stands still, and its host's agent is there; a host is dark and does not answer;
a host does not answer, or its agent's line ended; a host's outlet reads off."""

_ORDER: dict[Failure, tuple[Means, ...]] = {
    "rank": ("process", "network", "power"),
    "dead": ("power", "network", "process"),
    "unreachable": ("network", "process", "power"),
}


def fences(failure: Failure, permitted: Collection[Means]) -> tuple[Means, ...]:
    """Return the fences for a failure, the one to try first at the front."""
    if failure == "off":
        return ("none",)
    return tuple(means for means in _ORDER[failure] if means in permitted)
