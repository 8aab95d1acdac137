"""What the entry points name of instruments behind HTTP; imports only words."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from testbed.plugins import Kind
from testbed.secret import Secret, conceal
from testbed.units import PowerLevel, Seconds
from testbed_drivers.transports.options import Timeouts


@dataclass(frozen=True, slots=True)
class HttpOptions(Timeouts):
    """How a web service is reached: HTTP basic authentication, TLS verified by default."""

    user: str = ""
    password: Secret | None = None
    verify: bool = True
    """False accepts any certificate; for boxes on a closed network that made their own."""
    ca_file: str = ""
    """PEM file of an authority to trust besides the system's."""

    def authorization(self) -> str:
        """Return the value of the header `Authorization`; empty when no user is named."""
        if not self.user:
            return ""
        word = self.password.reveal() if self.password else ""
        encoded = base64.b64encode(f"{self.user}:{word}".encode()).decode()
        conceal(encoded)
        return f"Basic {encoded}"


@dataclass(frozen=True, slots=True)
class PolatisRestconfOptions(HttpOptions):
    """How the web service of a Polatis switch is reached, and what the switch needs."""

    size: tuple[int, int] | None = None
    """Inputs and outputs; read from the name of the model when not given."""
    floor: PowerLevel = -50.0
    """A monitor's reading of this or less is no light."""
    settle: Seconds = 0.025
    settle_max: Seconds = 0.05
    averaging: Seconds = 0.0
    """Over how long its power monitors average what they read."""


@dataclass(frozen=True, slots=True)
class CalientRestOptions(HttpOptions):
    """How the web service of a Calient switch is reached, and what the switch needs."""

    group: str = "SYSTEM"
    """The group that labels our circuits; those of other groups are never taken down."""
    settle: Seconds = 0.05
    settle_max: Seconds = 0.5
    averaging: Seconds = 0.0
    """Over how long its power monitors average what they read."""


@dataclass(frozen=True, slots=True)
class ControllerOptions(HttpOptions):
    """How the web service of a management controller is reached; these are slow."""

    connect_timeout: Seconds = 5.0
    answer_timeout: Seconds = 10.0


@dataclass(frozen=True, slots=True)
class RedfishOptions(ControllerOptions):
    """How the web service of a rack power unit is reached, and how large the unit is."""

    outlets: int = 0
    """How many outlets it has, whose ids are 1 to that; 0 where only the unit knows."""

    def __post_init__(self) -> None:
        """Refuse what is no number of outlets."""
        Timeouts.__post_init__(self)
        if self.outlets < 0:
            raise ValueError(f"outlets must be at least 0, not {self.outlets}")


POLATIS_RESTCONF = Kind(
    "Polatis / HUBER+SUHNER piezo switch, RESTCONF over HTTP(S)",
    "testbed_drivers.switches.polatis_restconf:PolatisRestconf",
    options=PolatisRestconfOptions,
    role="switch",
    far_end="polatis-restconf",
    resource="http://{host}:8008",
    make="polatis",
    ways=("http",),
    sides=lambda options: options.size or (0, 0),
    reciprocal=True,
)
CALIENT_REST = Kind(
    "Calient S-series and Edge640 MEMS switch, REST over HTTP(S)",
    "testbed_drivers.switches.calient_rest:CalientRest",
    options=CalientRestOptions,
    role="switch",
    far_end="calient-rest",
    resource="https://{host}",
    make="calient",
    ways=("http",),
    sides=lambda options: (0, 0),
)
REDFISH = Kind(
    "rack power unit with switched outlets, Redfish over HTTP(S)",
    "testbed_drivers.power.redfish:Redfish",
    options=RedfishOptions,
    role="power",
    far_end="redfish",
    resource="https://{host}",
    ways=("http",),
    outlets=lambda options: options.outlets,
)
REDFISH_HOST = Kind(
    "power of hosts through their management controller (BMC), Redfish over HTTP(S)",
    "testbed_drivers.power.redfish:RedfishHost",
    options=ControllerOptions,
    role="power",
    far_end="redfish-host",
    resource="https://{host}",
    ways=("http",),
)
POLATIS_RESTCONF_FAR_END = Kind(
    "Polatis switch, device side of its RESTCONF",
    "testbed_drivers.switches.polatis_restconf_far_end:PolatisRestconfFarEnd",
    options=PolatisRestconfOptions,
)
CALIENT_REST_FAR_END = Kind(
    "Calient switch, device side of its REST",
    "testbed_drivers.switches.calient_rest_far_end:CalientRestFarEnd",
    options=CalientRestOptions,
)
REDFISH_FAR_END = Kind(
    "rack power unit, device side of its Redfish",
    "testbed_drivers.power.redfish_far_end:RedfishFarEnd",
    options=RedfishOptions,
)
REDFISH_HOST_FAR_END = Kind(
    "management controller of hosts, device side of its Redfish",
    "testbed_drivers.power.redfish_far_end:RedfishHostFarEnd",
    options=ControllerOptions,
)
