"""Descriptors of the drivers of Polatis switches: SCPI, TL1 and RESTCONF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from testbed.units import PowerLevel, Seconds
from testbed_drivers.descriptors import described_switch
from testbed_drivers.dialects.options import HttpOptions, Tl1Options
from testbed_drivers.transports.options import LineOptions

Monitors = bool | Literal["inputs", "outputs"]
"""What a lab file says of the monitors of a switch: all, none, or those of one side only."""


@dataclass(frozen=True, slots=True)
class PolatisOptions(LineOptions):
    """Connection options of a Polatis switch.

    `write_termination` and `read_termination` override the default line terminators: LF in both
    directions on TCP; CR LF to the switch and CR from it on a serial line, as one lab reported.
    """

    baud: int = 38400
    write_termination: str = ""
    read_termination: str = ""
    size: tuple[int, int] | None = None
    """Inputs and outputs, or, with no outputs, the ports of a model with one side; asked of the
    switch when not given."""
    settle: Seconds = 0.025
    settle_max: Seconds = 0.05
    averaging: Seconds = 0.0
    """Over how long its power monitors average what they read."""
    monitors: Monitors | None = None
    """Where it has power monitors: at no port, or on one side only; asked of it when not given."""

    def __post_init__(self) -> None:
        """Refuse what is no size of a switch."""
        LineOptions.__post_init__(self)
        if self.size and (self.size[0] < 1 or self.size[1] < 0):
            raise ValueError(f"size {list(self.size)} is not inputs and outputs, as [16, 16]")

    def ends(self, *, serial: bool) -> tuple[bytes, bytes]:
        """Return the line terminators for sending to the switch and for receiving from it."""
        write, read = ("\r\n", "\r") if serial else ("\n", "\n")
        return (
            (self.write_termination or write).encode("ascii"),
            (self.read_termination or read).encode("ascii"),
        )


@dataclass(frozen=True, slots=True)
class PolatisTl1Options(Tl1Options):
    """Options of a Polatis switch with TL1."""

    size: tuple[int, int] | None = None
    """Inputs and outputs; asked of the switch when not given."""
    floor: PowerLevel = -50.0
    """A monitor's reading of this or less is no light."""
    monitors: Monitors | None = None
    """Where it has power monitors: at no port, or on one side only; asked of it when not given."""
    settle: Seconds = 0.025
    settle_max: Seconds = 0.05
    averaging: Seconds = 0.0
    """Over how long its power monitors average what they read."""


@dataclass(frozen=True, slots=True)
class PolatisRestconfOptions(HttpOptions):
    """Options of a Polatis switch with RESTCONF."""

    size: tuple[int, int] | None = None
    """Inputs and outputs; read from the name of the model when not given."""
    floor: PowerLevel = -50.0
    """A monitor's reading of this or less is no light."""
    settle: Seconds = 0.025
    settle_max: Seconds = 0.05
    averaging: Seconds = 0.0
    """Over how long its power monitors average what they read."""


def ports_on_one_side(size: tuple[int, int] | None) -> int:
    """Return the number of ports of a model with all ports on one side; 0 for other models."""
    return size[0] if size and not size[1] else 0


POLATIS, POLATIS_FAR_END = described_switch(
    "polatis",
    "testbed_drivers.switches.polatis:Polatis",
    PolatisOptions,
    driver="Polatis / HUBER+SUHNER piezo switch, SCPI over TCP or serial",
    far_end="Polatis switch, device side of its SCPI",
    resource="TCPIP::{host}::5025::SOCKET",
    make="polatis",
    ways=("tcp", "serial", "visa"),
    sides=lambda options: options.size or (0, 0),
    reciprocal=True,
    one_side=lambda options: ports_on_one_side(options.size),
)
POLATIS_TL1, POLATIS_TL1_FAR_END = described_switch(
    "polatis-tl1",
    "testbed_drivers.switches.polatis_tl1:PolatisTl1",
    PolatisTl1Options,
    driver="Polatis / HUBER+SUHNER piezo switch, TL1 over TCP",
    far_end="Polatis switch, device side of its TL1",
    resource="TCPIP::{host}::3082::SOCKET",
    make="polatis",
    ways=("tcp",),
    needs=("user",),
    sides=lambda options: options.size or (0, 0),
    reciprocal=True,
)
POLATIS_RESTCONF, POLATIS_RESTCONF_FAR_END = described_switch(
    "polatis-restconf",
    "testbed_drivers.switches.polatis_restconf:PolatisRestconf",
    PolatisRestconfOptions,
    driver="Polatis / HUBER+SUHNER piezo switch, RESTCONF over HTTP(S)",
    far_end="Polatis switch, device side of its RESTCONF",
    resource="http://{host}:8008",
    make="polatis",
    ways=("http",),
    sides=lambda options: options.size or (0, 0),
    reciprocal=True,
)
