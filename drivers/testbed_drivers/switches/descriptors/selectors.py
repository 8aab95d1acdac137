"""Descriptors of the drivers of 1×N, 2×2 and small matrix switches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from testbed.units import Seconds
from testbed_drivers.descriptors import described_switch
from testbed_drivers.transports.options import LineOptions


@dataclass(frozen=True, slots=True)
class DiconOptions(LineOptions):
    """Options of a DiCon 1×N module: its connection, and its settle time."""

    settle: Seconds = 0.01
    settle_max: Seconds = 0.05


@dataclass(frozen=True, slots=True)
class DiconMxsOptions(LineOptions):
    """Options of a DiCon MXS-9100: its connection and size, which the device does not report.

    `size` counts inputs and outputs.
    """

    size: tuple[int, int] = (8, 8)
    settle: Seconds = 0.025
    settle_max: Seconds = 0.1


@dataclass(frozen=True, slots=True)
class SantecOptions(LineOptions):
    """Options of a Santec OSX or SX1: its connection, and the number of the module."""

    module: int = 1
    settle: Seconds = 0.3
    settle_max: Seconds = 3.0


@dataclass(frozen=True, slots=True)
class ThorlabsOptions(LineOptions):
    """Options of a Thorlabs OSW switch: its connection and model, which it does not report."""

    model: Literal["OSW12", "OSW22"] = "OSW22"
    settle: Seconds = 0.001
    settle_max: Seconds = 0.01


@dataclass(frozen=True, slots=True)
class MziOptions(LineOptions):
    """Options of a controller of 2×2 interferometers: its connection, and the element's number."""

    element: int = 1
    settle: Seconds = 0.001
    settle_max: Seconds = 0.01


@dataclass(frozen=True, slots=True)
class AgiltronOptions(LineOptions):
    """Options of an Agiltron FF switch: its connection and number of channels."""

    baud: int = 9600
    channels: int = 8
    settle: Seconds = 0.01
    settle_max: Seconds = 0.1


DICON, DICON_FAR_END = described_switch(
    "dicon",
    "testbed_drivers.switches.dicon:Dicon",
    DiconOptions,
    driver="DiCon 1×N MEMS module on a serial line (experimental)",
    far_end="DiCon 1×N module, device side of its lines",
    ways=("serial", "visa"),
    sides=lambda options: (1, 0),
    reciprocal=True,
)
DICON_MXS, DICON_MXS_FAR_END = described_switch(
    "dicon-mxs",
    "testbed_drivers.switches.dicon_mxs:DiconMxs",
    DiconMxsOptions,
    driver="DiCon MXS-9100 matrix switch, SCPI over TCP or serial (experimental)",
    far_end="DiCon MXS-9100, device side of its SCPI",
    ways=("tcp", "serial", "visa"),
    sides=lambda options: options.size,
    reciprocal=True,
)
SANTEC, SANTEC_FAR_END = described_switch(
    "santec",
    "testbed_drivers.switches.santec:Santec",
    SantecOptions,
    driver="one 1×N module of a Santec (JGR) OSX or SX1, SCPI over TCP",
    far_end="Santec OSX with one module, device side of its SCPI",
    whole=True,
    element=lambda options: f"module {options.module}",
    ways=("tcp",),
    sides=lambda options: (1, 0),
    reciprocal=True,
)
THORLABS, THORLABS_FAR_END = described_switch(
    "thorlabs",
    "testbed_drivers.switches.thorlabs:Thorlabs",
    ThorlabsOptions,
    driver="Thorlabs OSW12 (1×2) or OSW22 (2×2) on a serial line",
    far_end="Thorlabs OSW switch, device side of its lines",
    whole=True,
    ways=("serial", "visa"),
    anonymous=True,
    sides=lambda options: (1 if options.model == "OSW12" else 2, 2),
    reciprocal=True,
)
MZI, MZI_FAR_END = described_switch(
    "mzi",
    "testbed_drivers.switches.mzi:Mzi",
    MziOptions,
    driver="generic 2×2 bar/cross element, our own SCPI over TCP or serial",
    far_end="2×2 interferometers, device side of our own SCPI",
    whole=True,
    element=lambda options: f"element {options.element}",
    ways=("tcp", "serial", "visa"),
    sides=lambda options: (2, 2),
)
AGILTRON, AGILTRON_FAR_END = described_switch(
    "agiltron",
    "testbed_drivers.switches.agiltron:Agiltron",
    AgiltronOptions,
    driver="Agiltron FF 1×N switch on a serial line",
    far_end="Agiltron FF switch, device side of its frames",
    whole=True,
    ways=("serial", "visa"),
    anonymous=True,
    sides=lambda options: (1, options.channels),
    reciprocal=True,
)
