"""What the entry points name: every plug-in's options and where its code is.

Importing this module loads no instrument library and no driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from testbed.plugins import Kind
from testbed.units import Seconds
from testbed_drivers.transports.options import SerialOptions


@dataclass(frozen=True, slots=True)
class PolatisOptions(SerialOptions):
    """How a Polatis switch is reached and what it is known to need.

    The terminators are what one lab reported; an empty one means the usual of the line: LF both
    ways on TCP, CR LF to the switch and CR from it on a serial line.
    """

    transport: str = ""
    """`visa` or `serial`; empty: by how the resource is written."""
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
    monitors: bool | Literal["inputs", "outputs"] | None = None
    """Where it has power monitors: at no port, or on one side only; asked of it when not given."""

    def __post_init__(self) -> None:
        """Refuse what is no size of a switch."""
        SerialOptions.__post_init__(self)
        if self.size and (self.size[0] < 1 or self.size[1] < 0):
            raise ValueError(f"size {list(self.size)} is not inputs and outputs, as [16, 16]")

    def ends(self, *, serial: bool) -> tuple[bytes, bytes]:
        """Return what ends a line to the switch, and a line from it."""
        write, read = ("\r\n", "\r") if serial else ("\n", "\n")
        return (
            (self.write_termination or write).encode("ascii"),
            (self.read_termination or read).encode("ascii"),
        )


def ports_on_one_side(size: tuple[int, int] | None) -> int:
    """Return how many ports a model has that are all on one side; 0 where it has inputs."""
    return size[0] if size and not size[1] else 0


POLATIS = Kind(
    "Polatis / HUBER+SUHNER piezo switch, SCPI over TCP or serial",
    "testbed_drivers.switches.polatis:Polatis",
    options=PolatisOptions,
    role="switch",
    far_end="polatis",
    resource="TCPIP::{host}::5025::SOCKET",
    make="polatis",
    ways=("tcp", "serial", "visa"),
    sides=lambda options: options.size or (0, 0),
    reciprocal=True,
    one_side=lambda options: ports_on_one_side(options.size),
)
VISA = Kind("VISA resource through pyvisa", "testbed_drivers.transports.visa:dial")
SERIAL = Kind("serial device through pyserial", "testbed_drivers.transports.serial_port:dial")
TCP = Kind("TCP port without VISA", "testbed_drivers.transports.tcp:dial")
POLATIS_FAR_END = Kind(
    "Polatis switch, device side of its SCPI",
    "testbed_drivers.switches.polatis_far_end:PolatisFarEnd",
    options=PolatisOptions,
)
