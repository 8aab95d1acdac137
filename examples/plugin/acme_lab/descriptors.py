"""What `testbed validate` must know of each part; importing this loads none of their code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from testbed.events.kind import event_kind, integer
from testbed.plugins import FaultProperties, Kind
from testbed.units import Seconds
from testbed_drivers.descriptors import described_switch
from testbed_drivers.transports.options import LineOptions


@dataclass(frozen=True, slots=True)
class AcmeOptions(LineOptions):
    """Options of an Acme switch: its connection, and its settle time."""

    settle: Seconds = 0.02
    settle_max: Seconds = 0.1


@dataclass(frozen=True, slots=True)
class PiOptions:
    """π by chance: each rank draws points in a square, and all sum how many hit the circle."""

    ranks: int
    steps: int
    cells: int = 1024
    """Parts of the square, whose hits are summed one by one."""
    points: int = 16
    """Points per cell, rank and step."""
    pace: Seconds = 0.02
    """How long each rank computes between two sums, what is left of it spent waiting."""
    spares: int = 0

    def __post_init__(self) -> None:
        """Refuse what gives no step."""
        if min(self.ranks, self.steps, self.cells, self.points) < 1 or self.spares < 0:
            raise ValueError("`ranks`, `steps`, `cells` and `points` must be at least 1")

    def measures(self) -> Iterator[str]:
        """Yield the metrics that its trials measure without a fault."""
        yield from ("step_time", "steps", "loss", "digest")


@dataclass(frozen=True, slots=True)
class FlickerOptions:
    """How often the circuit to the next rank goes dark, and for how long each time."""

    times: int = 3
    dark: Seconds = 0.02

    def __post_init__(self) -> None:
        """Refuse a flicker of nothing."""
        if self.times < 1 or self.dark <= 0:
            raise ValueError("`times` must be at least 1 and `dark` above 0")


@dataclass(frozen=True, slots=True)
class PatrolOptions:
    """How many steps pass from one look at the switches to the next."""

    every: int = 10

    def __post_init__(self) -> None:
        """Refuse to look without an end."""
        if self.every < 1:
            raise ValueError(f"`every` must be at least 1 step, not {self.every}")


ACME, ACME_FAR_END = described_switch(
    "acme",
    "acme_lab.switch:Acme",
    AcmeOptions,
    driver="Acme crossbar, SCPI over TCP or serial",
    far_end="Acme crossbar, device side of its SCPI",
    resource="TCPIP::{host}::5025::SOCKET",
    ways=("tcp", "serial", "visa"),
    sides=lambda options: (0, 0),
)
PI = Kind(
    "π by chance: hits are summed over the ranks, every value verified", "acme_lab.pi:Pi", PiOptions
)
FLICKER = Kind(
    "the circuit from a rank to its successor goes dark for moments",
    "acme_lab.flicker:Flicker",
    FlickerOptions,
    role="slows",
    fault=FaultProperties(
        hits="circuit", repair="undo", not_on_packet="on a packet switch there is no circuit"
    ),
)
PATROL = Kind(
    "reads the switches every so many steps, and fails where others changed circuits",
    "acme_lab.patrol:Patrol",
    PatrolOptions,
    handlers="acme_lab.patrol:handlers",
)
LARGEST_DEMAND = Kind(
    "the job that asks for most clients first",
    "acme_lab.largest_demand:LargestDemand",
    role="online",
)
PATROL_EVENT = event_kind(
    "the switches were read, and have the circuits of the run",
    after=integer("the step after which they were read"),
)
