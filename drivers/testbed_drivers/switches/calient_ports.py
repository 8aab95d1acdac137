"""The ports and circuits of a Calient switch by number and name, and its status words.

Every port `shelf.slot.port` has two fibres: number k is the ingress of the k-th port in the order
of names, number N+k its egress. A circuit is named `1.1.1>2.1.1` one way and `1.1.1-2.1.1` both
ways.
"""

from __future__ import annotations

from collections.abc import Iterable

from testbed.fabric.device import Capabilities, State
from testbed.fabric.reading import DARK, NOT_MEASURED, Reading, measured
from testbed_drivers.switches.descriptors.calient import CalientOptions, CalientRestOptions
from testbed_drivers.switches.switch import capabilities_of, sides

STATES = {"": "IS/IS/OK", "moving": "IS/RDY/OK", "failed": "IS/RDY/FAIL"}
"""Administrative, operational and optical state of a circuit in service."""


class PortNames:
    """The names and numbers of one switch's ports; ValueError for an unknown port."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(names, key=_place)
        self._places = {name: place for place, name in enumerate(self._names, 1)}
        if len(self._places) != len(self._names):
            raise ValueError("a port is named twice")

    @classmethod
    def first(cls, count: int) -> PortNames:
        """Return the first names of a switch with 320 ports, for one with `count` ports."""
        names = CalientOptions().port_names()
        if count > len(names):
            raise ValueError(f"expected {count} port names, got {len(names)}")
        return cls(names[:count])

    def __len__(self) -> int:
        return len(self._names)

    def name(self, number: int) -> str:
        """Return the name of the port to which a fibre belongs."""
        return self._names[(number - 1) % len(self._names)]

    def circuit(self, ingress: int, egress: int) -> str:
        """Return the name of a one-way circuit."""
        return f"{self.name(ingress)}>{self.name(egress)}"

    def pairs(self, circuit: str) -> State:
        """Return the pairs of fibres that a circuit connects, one way or both."""
        for arrow in (">", "-"):
            first, found, last = circuit.partition(arrow)
            if found:
                there = {self._entering(first): self._leaving(last)}
                back = {self._entering(last): self._leaving(first)} if arrow == "-" else {}
                return there | back
        raise ValueError(f"{circuit!r} is not a circuit name such as 1.1.1>2.1.1")

    def _entering(self, name: str) -> int:
        if name not in self._places:
            raise ValueError(f"there is no port {name!r}")
        return self._places[name]

    def _leaving(self, name: str) -> int:
        return len(self._names) + self._entering(name)


def capabilities_with(options: CalientOptions | CalientRestOptions, count: int) -> Capabilities:
    """Return the capabilities of a switch with `count` ports; every fibre is monitored."""
    ingress, egress = sides(count, count)
    return capabilities_of(options, (ingress, egress), steadiness=True, monitored=ingress | egress)


def reading(word: object) -> Reading:
    """Return what one side of a port shows, as `level` formats it; without a word, not measured.

    Raise ValueError for what is no level.
    """
    if word in ("", None):
        return NOT_MEASURED
    return DARK if word == "NONE" else measured(float(word))  # type: ignore[arg-type]


def level(decibels: float | None) -> str:
    """Format a power level or a loss as the switch does."""
    return "NONE" if decibels is None else f"{decibels:.2f}"


def trouble(status: str) -> str:
    """Return why a circuit is not steady, or an empty string.

    `status` are its administrative, operational and capability states, as `IS/IS/OK`.
    """
    if status == "IS/IS/OK":
        return ""
    if status.startswith("UMA/"):
        return f"disabled: not put in service ({status})"
    return f"failed ({status})" if status.endswith("/FAIL") else status


def _place(name: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in name.split("."))
    except ValueError:
        raise ValueError(f"{name!r} is not a port name such as 1.1.1") from None
