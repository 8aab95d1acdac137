"""A rack power unit, device side: outlets and the part of Redfish that speaks of them.

Paths, properties and the error object follow DMTF's DSP0266 and its schemas RackPDU and Outlet;
no box was seen to answer so. The service root needs no login, everything else does when the
options name a user.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from testbed.bench.contracts import PowerSite, never
from testbed_drivers.cards import RedfishOptions
from testbed_drivers.far_end import FarEnd
from testbed_drivers.http_far_end import HttpSession, Request

FAULTS = {
    "error": "refuses a command in the device's own words",
    "stuck": "accepts a change of `port`, but neither the device nor the read-back follows",
    "lie": "accepts a change of `port` and reads it back as done, but light or power stays",
}
"""What a power unit can be told to do wrong."""

_ROOT = "/redfish/v1"
_UNIT = f"{_ROOT}/PowerEquipment/RackPDUs/1"
_OUTLETS = f"{_UNIT}/Outlets"
_ACTION = "Actions/Outlet.PowerControl"

Answer = tuple[int, Any]


class RedfishFarEnd(FarEnd):
    """A rack power unit at a site. It answers an action once `site.turn` has returned."""

    def __init__(self, site: PowerSite, options: RedfishOptions | None = None) -> None:
        self._site = site
        self._authorization = (options or RedfishOptions()).authorization()
        self._powered = dict(site.outlets)
        self._shown = dict(site.outlets)
        super().__init__(FAULTS, site.scheduler, seed=0)

    def session(
        self,
        send: Callable[[bytes], None],
        *,
        serial: bool = False,
        hang_up: Callable[[], None] = never,
    ) -> HttpSession:
        """Open a conversation whose replies go to `send`."""
        return HttpSession(self._answer, self.wire(send, hang_up))

    def _answer(self, request: Request) -> Answer:
        path = unquote(request.path.partition("?")[0]).rstrip("/")
        with self.lock:
            return self._route(request, path)

    def _route(self, request: Request, path: str) -> Answer:
        if path != _ROOT and not self._knows(request):
            return _error(401, "a user name and a password are needed")
        outlet, _, rest = path.removeprefix(f"{_OUTLETS}/").partition("/")
        if outlet in self._shown and (request.method, rest) == ("POST", _ACTION):
            return self._control(outlet, request.body)
        resource = self._resources().get(path)
        if resource is None:
            return _error(404, f"there is no {path}")
        if request.method != "GET":
            return _error(405, f"{request.method} is not possible on {path}")
        return 200, {"@odata.id": path, **resource}

    def _resources(self) -> dict[str, dict[str, Any]]:
        """Return what can be read, by path."""
        outlets = {f"{_OUTLETS}/{outlet}": self._outlet(outlet) for outlet in self._shown}
        return outlets | {
            _ROOT: {"RedfishVersion": "1.15.0", "PowerEquipment": _link(f"{_ROOT}/PowerEquipment")},
            f"{_ROOT}/PowerEquipment": {"RackPDUs": _link(f"{_ROOT}/PowerEquipment/RackPDUs")},
            f"{_ROOT}/PowerEquipment/RackPDUs": {"Members": [_link(_UNIT)]},
            _UNIT: {
                "Id": "1",
                "EquipmentType": "RackPDU",
                "Manufacturer": "Testbed",
                "Model": f"Twin PDU {len(self._shown)}",
                "SerialNumber": self._site.serial,
                "FirmwareVersion": "1.0",
                "Outlets": _link(_OUTLETS),
            },
            _OUTLETS: {"Members": [_link(path) for path in outlets]},
        }

    def _outlet(self, outlet: str) -> dict[str, Any]:
        action = {"target": f"{_OUTLETS}/{outlet}/{_ACTION}"}
        return {
            "Id": outlet,
            "PowerState": "On" if self._shown[outlet] else "Off",
            "Actions": {"#Outlet.PowerControl": action},
        }

    def _control(self, outlet: str, body: bytes) -> Answer:
        try:
            wanted = json.loads(body)["PowerState"]
        except (ValueError, KeyError, TypeError):
            return _error(400, "the body must be an object with PowerState")
        if wanted not in ("On", "Off"):
            return _error(400, f"PowerState {wanted!r} is neither On nor Off")
        if self.faults.strikes("error", "", outlet):
            return _error(503, "the outlet's controller does not respond")
        if not self.faults.strikes("stuck", "", outlet):
            self._turn(outlet, wanted == "On")
        return 204, None

    def _turn(self, outlet: str, on: bool) -> None:
        self._shown[outlet] = on
        if self._powered[outlet] != on and not self.faults.strikes("lie", "", outlet):
            self._powered[outlet] = on
            self._site.turn(outlet, on)

    def _knows(self, request: Request) -> bool:
        if not self._authorization:
            return True
        given = request.headers.get("authorization", "")
        return hmac.compare_digest(given.encode(), self._authorization.encode())


def _link(path: str) -> dict[str, str]:
    return {"@odata.id": path}


def _error(status: int, words: str) -> Answer:
    return status, {"error": {"code": "Base.1.0.GeneralError", "message": words}}
