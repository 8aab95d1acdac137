"""Descriptors of the drivers of attenuators and power meters."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.units import PowerLevel, Seconds
from testbed_drivers.descriptors import described
from testbed_drivers.transports.options import LineOptions


@dataclass(frozen=True, slots=True)
class ScpiOptions(LineOptions):
    """Connection options of an instrument with a SCPI interface."""

    baud: int = 9600
    write_termination: str = "\n"
    read_termination: str = "\n"

    def ends(self) -> tuple[bytes, bytes]:
        """Return the line terminators for sending to the instrument and for receiving from it."""
        return self.write_termination.encode("ascii"), self.read_termination.encode("ascii")


@dataclass(frozen=True, slots=True)
class AttenuatorOptions(ScpiOptions):
    """Options of an attenuator: its connection, and how long its filters may move."""

    settle_max: Seconds = 1.0
    """Seconds after which an attenuation that reads otherwise will not come right."""


@dataclass(frozen=True, slots=True)
class MeterOptions(ScpiOptions):
    """Options of a power meter: its connection, and its reading when there is no light."""

    floor: PowerLevel = -60.0
    """A reading of this or less is no light."""


KEYSIGHT_VOA, KEYSIGHT_VOA_FAR_END = described(
    "keysight-voa",
    "testbed_drivers.light.keysight_voa:KeysightVoa",
    AttenuatorOptions,
    driver="Keysight / Agilent variable optical attenuator, SCPI",
    far_end="Keysight attenuator, device side of its SCPI",
    role="attenuator",
    ways=("tcp", "serial", "visa"),
)
KEYSIGHT_METER, KEYSIGHT_METER_FAR_END = described(
    "keysight-meter",
    "testbed_drivers.light.power_meters:KeysightMeter",
    MeterOptions,
    driver="Keysight / Agilent optical power meter, SCPI",
    far_end="Keysight power meter, device side of its SCPI",
    role="meter",
    ways=("tcp", "serial", "visa"),
)
THORLABS_METER, THORLABS_METER_FAR_END = described(
    "thorlabs-meter",
    "testbed_drivers.light.power_meters:ThorlabsMeter",
    MeterOptions,
    driver="Thorlabs PM100 optical power meter, SCPI",
    far_end="Thorlabs power meter, device side of its SCPI",
    role="meter",
    ways=("tcp", "serial", "visa"),
)
