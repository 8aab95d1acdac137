"""Descriptors of the drivers of power units and management controllers."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.units import Seconds
from testbed_drivers.descriptors import described
from testbed_drivers.dialects.options import HttpOptions
from testbed_drivers.transports.options import Timeouts


@dataclass(frozen=True, slots=True)
class ControllerOptions(HttpOptions):
    """Options of a management controller (BMC): its web service, with long timeouts."""

    connect_timeout: Seconds = 5.0
    answer_timeout: Seconds = 10.0


@dataclass(frozen=True, slots=True)
class RedfishOptions(ControllerOptions):
    """Options of a rack power unit: its web service, and its number of outlets."""

    outlets: int = 0
    """How many outlets it has, whose ids are 1 to that; 0 where only the unit knows."""

    def __post_init__(self) -> None:
        """Refuse what is no number of outlets."""
        Timeouts.__post_init__(self)
        if self.outlets < 0:
            raise ValueError(f"outlets must be at least 0, not {self.outlets}")


REDFISH, REDFISH_FAR_END = described(
    "redfish",
    "testbed_drivers.power.redfish:Redfish",
    RedfishOptions,
    driver="rack power unit with switched outlets, Redfish over HTTP(S)",
    far_end="rack power unit, device side of its Redfish",
    role="power",
    resource="https://{host}",
    ways=("http",),
    outlets=lambda options: options.outlets,
)
REDFISH_HOST, REDFISH_HOST_FAR_END = described(
    "redfish-host",
    "testbed_drivers.power.redfish:RedfishHost",
    ControllerOptions,
    driver="power of hosts through their management controller (BMC), Redfish over HTTP(S)",
    far_end="management controller of hosts, device side of its Redfish",
    role="power",
    resource="https://{host}",
    ways=("http",),
)
