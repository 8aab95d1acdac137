"""What the entry points name of the switches that speak TL1; loads no instrument library."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import Literal

from testbed.plugins import Kind
from testbed.secret import Secret
from testbed.units import PowerLevel, Seconds
from testbed_drivers.transports.options import Timeouts


@dataclass(frozen=True, slots=True)
class PolatisTl1Options(Timeouts):
    """How a Polatis switch is reached over TL1 and what it is known to need."""

    user: str = ""
    """Must be given: there is no TL1 without a login."""
    password: Secret | None = None
    transport: str = ""
    """`visa` or `tcp`; empty: by how the resource is written."""
    size: tuple[int, int] | None = None
    """Inputs and outputs; asked of the switch when not given."""
    floor: PowerLevel = -50.0
    """A monitor's reading of this or less is no light."""
    monitors: bool | Literal["inputs", "outputs"] | None = None
    """Where it has power monitors: at no port, or on one side only; asked of it when not given."""
    settle: Seconds = 0.025
    settle_max: Seconds = 0.05
    averaging: Seconds = 0.0
    """Over how long its power monitors average what they read."""


@dataclass(frozen=True, slots=True)
class CalientOptions(Timeouts):
    """How a Calient switch is reached over TL1 and which ports it has.

    `shape` counts shelves, slots and ports: the order of the ports' own names, 1.1.1 to 5.8.8, is
    that of their numbers. Every port is a pair of fibres: light enters at n and leaves at N + n.
    """

    user: str = ""
    """Must be given: there is no TL1 without a login."""
    password: Secret | None = None
    transport: str = ""
    """`visa` or `tcp`; empty: by how the resource is written."""
    shape: str = "5x8x8"
    group: str = "SYSTEM"
    """The group that labels our circuits; those of other groups are never taken down."""
    settle: Seconds = 0.05
    settle_max: Seconds = 0.5
    averaging: Seconds = 0.0
    """Over how long its power monitors average what they read."""

    def __post_init__(self) -> None:
        """Raise ValueError for a shape that is none."""
        Timeouts.__post_init__(self)
        if not re.fullmatch(r"[1-9]\d?x[1-9]\d?x[1-9]\d?", self.shape):
            raise ValueError(f"shape {self.shape!r} is not shelves, slots and ports such as 5x8x8")

    def port_names(self) -> tuple[str, ...]:
        """Return the names of the ports, in the order of their numbers."""
        ranges = (range(1, int(count) + 1) for count in self.shape.split("x"))
        return tuple(".".join(map(str, place)) for place in product(*ranges))


POLATIS_TL1 = Kind(
    "Polatis / HUBER+SUHNER piezo switch, TL1 over TCP",
    "testbed_drivers.switches.polatis_tl1:PolatisTl1",
    options=PolatisTl1Options,
    role="switch",
    far_end="polatis-tl1",
    resource="TCPIP::{host}::3082::SOCKET",
    make="polatis",
    ways=("tcp",),
    needs=("user",),
    sides=lambda options: options.size or (0, 0),
    reciprocal=True,
)
CALIENT = Kind(
    "Calient S-series 3D MEMS switch, TL1 over TCP (experimental)",
    "testbed_drivers.switches.calient:Calient",
    options=CalientOptions,
    role="switch",
    far_end="calient",
    resource="TCPIP::{host}::3082::SOCKET",
    make="calient",
    ways=("tcp",),
    needs=("user",),
    sides=lambda options: (len(options.port_names()),) * 2,
)
POLATIS_TL1_FAR_END = Kind(
    "Polatis switch, device side of its TL1",
    "testbed_drivers.switches.polatis_tl1_far_end:PolatisTl1FarEnd",
    options=PolatisTl1Options,
)
CALIENT_FAR_END = Kind(
    "Calient S-series switch, device side of its TL1",
    "testbed_drivers.switches.calient_far_end:CalientFarEnd",
    options=CalientOptions,
)
