"""Descriptors of the drivers of Calient switches: TL1 and REST."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product

from testbed.units import Seconds
from testbed_drivers.descriptors import described_switch
from testbed_drivers.dialects.options import HttpOptions, Tl1Options


@dataclass(frozen=True, slots=True)
class CalientOptions(Tl1Options):
    """Options of a Calient switch with TL1: its connection, and its ports.

    `shape` counts shelves, slots and ports: the order of the ports' own names, 1.1.1 to 5.8.8, is
    that of their numbers. Every port is a pair of fibres: its ingress is n, its egress N + n.
    """

    shape: str = "5x8x8"
    group: str = "SYSTEM"
    """The group that labels our circuits; those of other groups are never taken down."""
    settle: Seconds = 0.05
    settle_max: Seconds = 0.5
    averaging: Seconds = 0.0
    """Over how long its power monitors average what they read."""

    def __post_init__(self) -> None:
        """Raise ValueError for a shape that is none."""
        Tl1Options.__post_init__(self)
        if not re.fullmatch(r"[1-9]\d?x[1-9]\d?x[1-9]\d?", self.shape):
            raise ValueError(f"shape {self.shape!r} is not shelves, slots and ports such as 5x8x8")

    def port_names(self) -> tuple[str, ...]:
        """Return the names of the ports in the order of their numbers."""
        ranges = (range(1, int(count) + 1) for count in self.shape.split("x"))
        return tuple(".".join(map(str, place)) for place in product(*ranges))


@dataclass(frozen=True, slots=True)
class CalientRestOptions(HttpOptions):
    """Options of a Calient switch with REST: its web service, and its timing."""

    group: str = "SYSTEM"
    """The group that labels our circuits; those of other groups are never taken down."""
    settle: Seconds = 0.05
    settle_max: Seconds = 0.5
    averaging: Seconds = 0.0
    """Over how long its power monitors average what they read."""


CALIENT, CALIENT_FAR_END = described_switch(
    "calient",
    "testbed_drivers.switches.calient:Calient",
    CalientOptions,
    driver="Calient S-series 3D MEMS switch, TL1 over TCP (experimental)",
    far_end="Calient S-series switch, device side of its TL1",
    resource="TCPIP::{host}::3082::SOCKET",
    make="calient",
    ways=("tcp",),
    needs=("user",),
    sides=lambda options: (len(options.port_names()),) * 2,
)
CALIENT_REST, CALIENT_REST_FAR_END = described_switch(
    "calient-rest",
    "testbed_drivers.switches.calient_rest:CalientRest",
    CalientRestOptions,
    driver="Calient S-series and Edge640 MEMS switch, REST over HTTP(S)",
    far_end="Calient switch, device side of its REST",
    resource="https://{host}",
    make="calient",
    ways=("http",),
    sides=lambda options: (0, 0),
)
