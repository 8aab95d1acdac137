"""The order in which fences are tried after a failure, of those that the lab permits.

A process that fails while its agent answers is ended. A host that is known to be dead loses its
power, so that it stays dead. A host that may still run is isolated first, which harms nothing on
it, and loses its power only if every other fence is forbidden or has failed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from testbed.control.protocol import Means

Failure = Literal["rank", "dead", "unreachable", "off"]
"""A rank ended or is stopped, and its host's agent answers; a host is dark and does not answer;
a host does not answer, or its agent's connection ended; a host's outlet is off."""

ORDER: dict[Failure, tuple[Means, ...]] = {
    "rank": ("process", "network", "power"),
    "dead": ("power", "network", "process"),
    "unreachable": ("network", "process", "power"),
}
"""By failure, the fences in the order in which they are tried."""


def fences(failure: Failure, permitted: Collection[Means]) -> tuple[Means, ...]:
    """Return the permitted fences for a failure, in the order in which to try them."""
    if failure == "off":
        return ("none",)
    return tuple(means for means in ORDER[failure] if means in permitted)
