"""What the contract suite must know of a driver that its descriptor does not say.

A package registers the family of its driver under `testbed.contract`, by the driver's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.errors import UsageError
from testbed.plugins import kind, kinds, registered

WIRES = {
    "visa-tcp": ("tcp", "visa"),
    "tcp": ("tcp", "tcp"),
    "visa-serial": ("pty", "visa"),
    "serial": ("pty", "serial"),
    "http": ("http", ""),
    "https": ("https", ""),
    "ssh": ("ssh", ""),
}
"""What a driver may claim: the place that the far end answers at, and the transport option."""


@dataclass(frozen=True)
class Family:
    """One driver: the size of its twin, the wires it claims, and what cannot go wrong with it."""

    driver: str
    wires: tuple[str, ...]
    inputs: int = 8
    outputs: int = 8
    """More than inputs where a list moves all of them at once: `misrouted` needs a free port."""
    options: Mapping[str, Any] = field(default_factory=dict)
    impossible: Mapping[str, str] = field(default_factory=dict)
    """Faults that this family cannot have, each with the reason."""
    nameless: bool = False
    """Whether the box does not report its serial number, so that it cannot be checked."""
    blind: bool = False
    """Whether the box cannot be asked what it holds, so that only who told it last knows."""

    @property
    def serial(self) -> str | None:
        """Return what a lab file says that the serial number is."""
        return None if self.nameless else "S1"


def family_of(driver: str) -> Family:
    """Return the family of a registered driver; raise UsageError where no package has one."""
    if (role := kind("drivers", driver).role) != "switch":
        raise UsageError(
            f"{driver} is a driver of role {role!r}, and the suite tests switches only"
        )
    known = registered("contract", Family)
    if driver not in known:
        raise UsageError(
            f"no package says how the driver {driver!r} is tested",
            hint=f"register a {Family.__module__}.Family of it under testbed.contract",
        )
    return known[driver]


def families() -> dict[str, Family]:
    """Return the family of every registered driver of a switch; raise as `family_of` does."""
    names = [name for name, one in kinds("drivers").items() if one.role == "switch"]
    return {name: family_of(name) for name in names}
