"""Driver for rack power units that speak Redfish (DMTF DSP0266, schema Outlet).

The outlet action is known from the standard's schema only; no box has confirmed it yet.
"""

from __future__ import annotations

import ssl
import time
from typing import Any
from urllib.parse import quote

from testbed.bench.contracts import Identity, Tracer
from testbed.clock import Deadline
from testbed.errors import Garbled, InstrumentError, Rejected, UsageError
from testbed.resource import Tcp, place
from testbed_drivers.cards import RedfishOptions
from testbed_drivers.http_line import HttpLine, Json
from testbed_drivers.session import SerialNumber, Session

UNIT = "/redfish/v1/PowerEquipment/RackPDUs/1"
QUERY_SECONDS = 2.0
_FIRST_POLL, _LONGEST_POLL = 0.005, 0.1


class Redfish:
    """A rack power unit; a `PowerUnit` whose outlets go by their Redfish ids."""

    def __init__(
        self,
        name: str,
        resource: str,
        identity: str | None,
        options: RedfishOptions,
        tracer: Tracer,
    ) -> None:
        where = place(resource)
        if not isinstance(where, Tcp):
            raise UsageError(f"{name}: {resource!r} is no URL", hint="write 'https://192.0.2.11'")
        self._name = name
        self._serial = SerialNumber(name, identity)
        tls = _tls(name, options) if where.tls else None
        headers = _headers(options)
        self._session: Session[HttpLine] = Session(
            name,
            lambda deadline: HttpLine.dial(name, where, tls, headers, tracer, deadline),
            self._greet,
            tracer,
        )

    def open(self, deadline: Deadline) -> Identity:
        """Open the line and check who answers."""
        return self.identify(deadline)

    def identify(self, deadline: Deadline) -> Identity:
        """Ask who it is; refuse the wrong serial number."""
        return self._serial.check(_identity(self._name, self._get(UNIT, deadline)))

    def is_on(self, outlet: str, deadline: Deadline) -> bool:
        """Read back one outlet; one that is still changing counts as what it was before."""
        return self._power_state(outlet, deadline) in ("On", "PoweringOff")

    def turn(self, outlet: str, on: bool, deadline: Deadline) -> None:
        """Switch one outlet; return when the unit reads it back as switched."""
        wanted = "On" if on else "Off"
        with self._session.held(deadline):
            with self._session.exchange(deadline) as line:
                action = f"{_path(outlet)}/Actions/Outlet.PowerControl"
                answer = line.request("POST", action, {"PowerState": wanted}, deadline)
                self._accepted(f"turning outlet {outlet} {wanted}", *answer)
            self._await(outlet, wanted, deadline)

    def close(self) -> None:
        """Close the line; safe to call twice. Leaves all outlets as they are."""
        self._session.close()

    def _await(self, outlet: str, wanted: str, deadline: Deadline) -> None:
        """Poll, ever more slowly, until the outlet reads as wanted."""
        pause = _FIRST_POLL
        while (state := self._power_state(outlet, deadline)) != wanted:
            if deadline.left < pause:
                raise InstrumentError(
                    self._name,
                    f"accepted to turn outlet {outlet} {wanted}, but it reads back {state}",
                    reply=state,
                    hint="look at the unit's own page, then at what the outlet feeds",
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_POLL)

    def _power_state(self, outlet: str, deadline: Deadline) -> str:
        answer = self._get(_path(outlet), deadline)
        state = answer.get("PowerState")
        if state not in ("On", "Off", "PoweringOn", "PoweringOff"):
            raise Garbled(self._name, f"outlet {outlet} has PowerState {state!r}", reply=str(state))
        return str(state)

    def _get(self, path: str, deadline: Deadline) -> dict[str, Any]:
        def once() -> dict[str, Any]:
            budget = deadline.within(QUERY_SECONDS)
            with self._session.exchange(budget) as line:
                return self._got(line, path, budget)

        return self._session.read(once, deadline)

    def _got(self, line: HttpLine, path: str, deadline: Deadline) -> dict[str, Any]:
        answer = self._accepted(f"reading {path}", *line.request("GET", path, None, deadline))
        if not isinstance(answer, dict):
            raise Garbled(self._name, f"answered {path} with no object", reply=str(answer))
        return answer

    def _greet(self, line: HttpLine, deadline: Deadline) -> None:
        budget = deadline.within(QUERY_SECONDS)
        self._serial.check(_identity(self._name, self._got(line, UNIT, budget)))

    def _accepted(self, what: str, status: int, answer: Json) -> Json:
        if 200 <= status < 300:
            return answer
        words = _error_words(answer)
        hint = {
            401: "give 'user' and 'password' in the lab file",
            403: "that user may not do this; give another one in the lab file",
            404: "check the outlet's id on the unit's own page",
        }.get(status, "")
        raise Rejected(self._name, f"refused {what}: {status} {words}", reply=words, hint=hint)


def _tls(name: str, options: RedfishOptions) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context()
        if options.ca_file:
            context.load_verify_locations(options.ca_file)
    except OSError as error:
        raise UsageError(f"{name}: 'ca_file' {options.ca_file} cannot be used: {error}") from error
    if not options.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _headers(options: RedfishOptions) -> dict[str, str]:
    headers = {"Accept": "application/json", "OData-Version": "4.0"}
    authorization = options.authorization()
    return headers | ({"Authorization": authorization} if authorization else {})


def _path(outlet: str) -> str:
    return f"{UNIT}/Outlets/{quote(outlet, safe='')}"


def _identity(name: str, unit: dict[str, Any]) -> Identity:
    keys = ("Manufacturer", "Model", "SerialNumber", "FirmwareVersion")
    if not isinstance(unit.get("SerialNumber"), str):
        raise Garbled(name, "answers without a serial number", reply=str(unit)[:80])
    return Identity(*(str(unit.get(key, "")) for key in keys))


def _error_words(answer: Json) -> str:
    """Return what a Redfish error says, wherever it says it (DSP0266, error responses)."""
    error = answer.get("error", {}) if isinstance(answer, dict) else {}
    details = error.get("@Message.ExtendedInfo") or [{}]
    return str(details[0].get("Message") or error.get("message") or "without a reason")
