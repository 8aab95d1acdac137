"""Drivers for power control by Redfish (DMTF DSP0266): rack power units, and hosts' BMCs.

Both actions follow the standard's schemas and public drivers; these drivers were not yet tested
with a real device.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any
from urllib.parse import quote

from testbed.bench.contracts import Identity, Tracer
from testbed.clock import Deadline
from testbed.errors import InstrumentError, NoReply, Rejected
from testbed_drivers.dialects.http_line import Json
from testbed_drivers.dialects.options import HttpOptions
from testbed_drivers.dialects.rest import Get, Rest, WebService
from testbed_drivers.transports.base import Endpoint

UNITS = "/redfish/v1/PowerEquipment/RackPDUs"
SYSTEMS = "/redfish/v1/Systems"
MANAGERS = "/redfish/v1/Managers"
_FIRST_POLL, _LONGEST_POLL = 0.005, 0.1


class RedfishService(ABC):
    """A `PowerUnit` whose outlets are Redfish resources with a `PowerState`."""

    outlets = ""
    """Path of the collection that outlets are members of."""
    noun = ""
    """What the service calls an outlet."""

    def __init__(
        self,
        name: str,
        resource: str,
        identity: str | None,
        options: HttpOptions,
        tracer: Tracer,
    ) -> None:
        self._name = name
        self._read: dict[str, dict[str, Any]] = {}
        service = WebService(
            self._read_identity,
            _error_words,
            headers={"OData-Version": "4.0"},
            not_found_hint=f"check the {self.noun}'s id; the service lists them at {self.outlets}",
        )
        endpoint = Endpoint(name, resource, identity, options, tracer)
        self._rest = Rest(endpoint, options, service)

    def open(self, deadline: Deadline) -> Identity:
        """Open the line and check the identity."""
        return self.identify(deadline)

    def identify(self, deadline: Deadline) -> Identity:
        """Query the identity; raise InstrumentError for another serial number than expected."""
        return self._rest.identify(deadline)

    def is_on(self, outlet: str, deadline: Deadline) -> bool:
        """Read back whether one outlet is on; while it changes, its former state counts."""
        return _power_state(self._outlet(outlet, deadline)) in ("On", "PoweringOff")

    def turn(self, outlet: str, on: bool, deadline: Deadline) -> None:
        """Switch one outlet; return when the read-back confirms it."""
        with self._rest.held(deadline):
            self._order(outlet, on, deadline)
            self._poll_until(outlet, "On" if on else "Off", deadline)

    def close(self) -> None:
        """Close the line without a change to outlets; safe to call twice."""
        self._rest.close()

    @abstractmethod
    def _read_identity(self, get: Get) -> Identity:
        """Query the identity."""

    @abstractmethod
    def _order(self, outlet: str, on: bool, deadline: Deadline) -> None:
        """Order an outlet to be switched, without waiting for it."""

    def _post(self, outlet: str, wanted: str, action: str, body: Json, deadline: Deadline) -> None:
        what = f"turning {self.noun} {outlet} {wanted}"
        self._rest.order(what, "POST", action, body, deadline, parse=lambda _: None)

    def _path(self, outlet: str) -> str:
        return f"{self.outlets}/{quote(outlet, safe='')}"

    def _outlet(self, outlet: str, deadline: Deadline) -> dict[str, Any]:
        """Read an outlet, whose `PowerState` is one that there is."""

        def ask(get: Get) -> dict[str, Any]:
            answer: dict[str, Any] = get(self._path(outlet))
            _power_state(answer)
            return answer

        self._read[outlet] = self._rest.read(ask, deadline)
        return self._read[outlet]

    def _poll_until(self, outlet: str, wanted: str, deadline: Deadline) -> None:
        """Poll, ever more slowly, until the outlet reads as wanted."""
        pause, state = _FIRST_POLL, ""
        while True:
            try:
                state = _power_state(self._outlet(outlet, deadline))
            except NoReply as error:
                if not state:
                    raise
                raise self._not_as_told(outlet, wanted, state) from error
            if state == wanted:
                return
            if deadline.left < 2 * pause:  # half of it is for the answer
                raise self._not_as_told(outlet, wanted, state)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_POLL)

    def _not_as_told(self, outlet: str, wanted: str, state: str) -> InstrumentError:
        return InstrumentError(
            self._name,
            f"accepted to turn {self.noun} {outlet} {wanted}, but it reads back {state}",
            reply=state,
            hint="check the web page of the unit, then the host that the outlet feeds",
        )


class Redfish(RedfishService):
    """A rack power unit; outlets are named by their ids (schemas RackPDU and Outlet)."""

    outlets = f"{UNITS}/1/Outlets"
    noun = "outlet"

    def _read_identity(self, get: Get) -> Identity:
        """Ask the first unit of the service, whose outlets are used; most have one, called 1."""
        unit = (get(UNITS) or {"Members": [{"@odata.id": f"{UNITS}/1"}]})["Members"][0]["@odata.id"]
        self.outlets = f"{unit}/Outlets"
        return _identity(get(unit))

    def _order(self, outlet: str, on: bool, deadline: Deadline) -> None:
        wanted = "On" if on else "Off"
        actions = (self._read.get(outlet) or self._outlet(outlet, deadline)).get("Actions", {})
        usual = f"{self._path(outlet)}/Actions/Outlet.PowerControl"
        action = actions.get("#Outlet.PowerControl", {}).get("target", usual)
        self._post(outlet, wanted, action, {"PowerState": wanted}, deadline)


class RedfishHost(RedfishService):
    """A management controller; outlets are the ids of its systems (schema ComputerSystem).

    Off is `ForceOff`, which cuts the power of all but the controller itself.
    """

    outlets = SYSTEMS
    noun = "system"

    def _read_identity(self, get: Get) -> Identity:
        manager = get(MANAGERS)["Members"][0]["@odata.id"]
        return _identity(get(manager))

    def _order(self, outlet: str, on: bool, deadline: Deadline) -> None:
        system = self._outlet(outlet, deadline)
        if _power_state(system) == ("On" if on else "Off"):
            return  # controllers refuse to turn on what is on
        reset = system.get("Actions", {}).get("#ComputerSystem.Reset", {})
        wanted = "On" if on else "ForceOff"
        allowed = self._resets(reset, deadline)
        if allowed is not None and wanted not in allowed:
            raise Rejected(
                self._name,
                f"system {outlet} does not list {wanted} among its resets: {', '.join(allowed)}",
                hint="cut its power at an outlet instead",
            )
        action = reset.get("target", f"{self._path(outlet)}/Actions/ComputerSystem.Reset")
        self._post(outlet, wanted, action, {"ResetType": wanted}, deadline)

    def _resets(self, reset: dict[str, Any], deadline: Deadline) -> list[str] | None:
        """Return the resets that a system takes, None where the service does not say.

        They stand beside the action or in an ActionInfo resource (DSP0266, action info); both are
        optional, and OpenBMC's bmcweb has the second only.
        """
        if (beside := reset.get("ResetType@Redfish.AllowableValues")) is not None:
            return list(beside)
        path = reset.get("@Redfish.ActionInfo")
        if not path:
            return None

        def ask(get: Get) -> list[str] | None:
            parameters = get(path)["Parameters"]
            named = [each for each in parameters if each["Name"] == "ResetType"]
            values = named[0].get("AllowableValues") if named else None
            return None if values is None else list(values)

        return self._rest.read(ask, deadline)


def _power_state(answer: dict[str, Any]) -> str:
    state = answer["PowerState"]
    if state not in ("On", "Off", "PoweringOn", "PoweringOff"):
        raise ValueError(f"PowerState is {state!r}, which is not a state of Redfish")
    return str(state)


def _identity(unit: dict[str, Any]) -> Identity:
    serial = unit.get("SerialNumber") or unit.get("UUID")
    if not isinstance(serial, str):
        raise ValueError("the resource has no serial number")
    keys = ("Manufacturer", "Model", "FirmwareVersion")
    maker, model, firmware = (str(unit.get(key, "")) for key in keys)
    return Identity(maker, model, serial, firmware)


def _error_words(answer: Json) -> str:
    """Return what a Redfish error says, wherever it says it (DSP0266, error responses)."""
    error = answer["error"]
    details = error.get("@Message.ExtendedInfo") or [{}]
    return str(details[0].get("Message") or error["message"])
