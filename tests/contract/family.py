"""What the contract suite must know of a driver that the registry does not say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from testbed.plugins import kinds

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


def families(role: str) -> dict[str, Family]:
    """Return the family of every registered driver of a role; fail for one without."""
    found = {}
    for name, kind in kinds("drivers").items():
        if kind.role == role:
            module = name.replace("-", "_")
            assert (Path(__file__).parent / "families" / f"{module}.py").exists(), (
                f"driver {name} has no tests/contract/families/{module}.py"
            )
            found[name] = import_module(f"tests.contract.families.{module}").FAMILY
    return found
