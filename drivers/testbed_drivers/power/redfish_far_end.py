"""Simulated Redfish services: the outlets of a rack power unit, or the systems of a BMC.

Paths, properties and the error object follow DMTF's DSP0266 and its schemas RackPDU, Outlet,
Manager and ComputerSystem; this was not compared with a real device. The service root needs no
login; other paths do when the options name a user.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from testbed.bench.sites import PowerSite
from testbed_drivers.dialects.far_end import DEVICE_FAULTS
from testbed_drivers.dialects.http_far_end import Answer, Request
from testbed_drivers.dialects.options import HttpOptions
from testbed_drivers.dialects.rest_far_end import RestFarEnd

_ROOT = "/redfish/v1"
_UNIT = f"{_ROOT}/PowerEquipment/RackPDUs/1"
_MANAGER = f"{_ROOT}/Managers/1"

Resources = dict[str, dict[str, Any]]


class RedfishServiceFarEnd(RestFarEnd):
    """The base of simulated Redfish services that switch outlets.

    `outlets` is the path of the collection of outlets, `action` the end of the path that switches
    one.
    """

    public = frozenset({_ROOT})
    outlets = ""
    action = ""

    def __init__(self, site: PowerSite, options: HttpOptions | None = None) -> None:
        self._site = site
        self._powered = dict(site.outlets)
        self._shown = dict(site.outlets)
        super().__init__(DEVICE_FAULTS, options or HttpOptions(), site)

    @abstractmethod
    def _resources(self) -> Resources:
        """Return what can be read besides the outlets, by path."""

    @abstractmethod
    def _outlet(self, action: str) -> dict[str, Any]:
        """Return what an outlet says besides its state, given the path that switches it."""

    @abstractmethod
    def _wanted(self, body: Mapping[str, Any]) -> tuple[bool, ...]:
        """Return the states that an action asks for, one after the other; ValueError: why not."""

    def _ports(self, request: Request) -> tuple[int | str, ...]:
        outlet, _, _ = request.path.removeprefix(f"{self.outlets}/").partition("/")
        return (outlet,)

    def _route(self, request: Request) -> Answer:
        path = request.path
        outlet, _, rest = path.removeprefix(f"{self.outlets}/").partition("/")
        if outlet in self._shown and (request.method, rest) == ("POST", self.action):
            return self._control(outlet, request)
        resource = self._everything().get(path)
        if resource is None:
            return self._error(404, f"there is no {path}")
        if request.method != "GET":
            return self._error(405, f"{request.method} is not possible on {path}")
        return Answer(200, {"@odata.id": path, **resource})

    def _everything(self) -> Resources:
        """Return what can be read, by path."""
        outlets = {f"{self.outlets}/{outlet}": self._whole(outlet) for outlet in self._shown}
        collection = {self.outlets: {"Members": [link(path) for path in outlets]}}
        return outlets | collection | self._resources()

    def _whole(self, outlet: str) -> dict[str, Any]:
        state = {"Id": outlet, "PowerState": "On" if self._shown[outlet] else "Off"}
        return state | self._outlet(f"{self.outlets}/{outlet}/{self.action}")

    def _maker(self, model: str) -> dict[str, Any]:
        return {
            "Manufacturer": "Testbed",
            "Model": f"{model} {len(self._shown)}",
            "SerialNumber": self._site.serial,
            "FirmwareVersion": "1.0",
        }

    def _control(self, outlet: str, request: Request) -> Answer:
        try:
            wanted = self._wanted(request.content)
        except (ValueError, KeyError, TypeError) as error:
            return self._error(400, f"the body does not say what is wanted: {error}")
        if not self.faults.strikes("stuck", "", outlet):
            for on in wanted:
                self._turn(outlet, on)
        return Answer(204)

    def _turn(self, outlet: str, on: bool) -> None:
        self._shown[outlet] = on
        if self._powered[outlet] != on and not self.faults.strikes("lie", "", outlet):
            self._powered[outlet] = on
            self._site.turn(outlet, on)

    def _error(self, status: int, words: str) -> Answer:
        return Answer(status, {"error": {"code": "Base.1.0.GeneralError", "message": words}})


class RedfishFarEnd(RedfishServiceFarEnd):
    """A simulated rack power unit."""

    outlets = f"{_UNIT}/Outlets"
    action = "Actions/Outlet.PowerControl"

    def _resources(self) -> Resources:
        equipment = f"{_ROOT}/PowerEquipment"
        unit = {"Id": "1", "EquipmentType": "RackPDU", "Outlets": link(self.outlets)}
        return {
            _ROOT: {"RedfishVersion": "1.15.0", "PowerEquipment": link(equipment)},
            equipment: {"RackPDUs": link(f"{equipment}/RackPDUs")},
            f"{equipment}/RackPDUs": {"Members": [link(_UNIT)]},
            _UNIT: unit | self._maker("Twin PDU"),
        }

    def _outlet(self, action: str) -> dict[str, Any]:
        return {"Actions": {"#Outlet.PowerControl": {"target": quote(action)}}}

    def _wanted(self, body: Mapping[str, Any]) -> tuple[bool, ...]:
        if body["PowerState"] not in ("On", "Off"):
            raise ValueError(f"PowerState {body['PowerState']!r} is neither On nor Off")
        return (body["PowerState"] == "On",)


class RedfishHostFarEnd(RedfishServiceFarEnd):
    """A simulated management controller; each outlet of the site is the power of one system."""

    outlets = f"{_ROOT}/Systems"
    action = "Actions/ComputerSystem.Reset"
    resets: Mapping[str, tuple[bool, ...]] = {
        "On": (True,),
        "ForceOff": (False,),
        "ForceRestart": (False, True),
    }

    def _resources(self) -> Resources:
        managers = f"{_ROOT}/Managers"
        links = {"Systems": link(self.outlets), "Managers": link(managers)}
        return {
            _ROOT: {"RedfishVersion": "1.15.0", **links},
            managers: {"Members": [link(_MANAGER)]},
            _MANAGER: {"Id": "1", "ManagerType": "BMC", **self._maker("Twin BMC")},
        }

    def _outlet(self, action: str) -> dict[str, Any]:
        reset = {"target": quote(action), "ResetType@Redfish.AllowableValues": list(self.resets)}
        return {"Actions": {"#ComputerSystem.Reset": reset}}

    def _wanted(self, body: Mapping[str, Any]) -> tuple[bool, ...]:
        if body["ResetType"] not in self.resets:
            raise ValueError(f"ResetType {body['ResetType']!r} is not one of {list(self.resets)}")
        return self.resets[body["ResetType"]]


def link(path: str) -> dict[str, str]:
    """Return a Redfish reference to another resource."""
    return {"@odata.id": path}
