"""A simulated Polatis switch with the part of its RESTCONF data that drivers use.

Assumptions beyond public documents are listed in drivers/README.md: a PUT on an input in use moves
it, as the key of a YANG list suggests; an output in use is a conflict.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from testbed.bench.sites import SwitchSite
from testbed_drivers.dialects.http_far_end import Answer, Request
from testbed_drivers.dialects.rest_far_end import RestFarEnd
from testbed_drivers.switches import simulated_switch
from testbed_drivers.switches.descriptors.polatis import PolatisRestconfOptions
from testbed_drivers.switches.polatis_far_end import size_at
from testbed_drivers.switches.simulated_switch import SimulatedSwitch

_DATA = "/api/data/optical-switch:"
_PAIRS = f"{_DATA}cross-connects"
_TAGS = {400: "invalid-value", 401: "access-denied", 404: "invalid-value", 409: "in-use"}
_DARK = "-60.0"


class PolatisRestconfFarEnd(RestFarEnd):
    """A simulated Polatis switch with monitors at its outputs; dark after power-on."""

    media = "application/yang-data+json"

    def __init__(self, site: SwitchSite, options: PolatisRestconfOptions | None = None) -> None:
        options = options or PolatisRestconfOptions()
        self._inputs, self._outputs = options.size or size_at(site)
        self._serial = site.serial
        super().__init__(simulated_switch.FAULTS, options, site)
        self._switch = SimulatedSwitch(site, self.faults, self.lock)
        self.at_once |= self._switch.at_once(self.hang_up)

    def _route(self, request: Request) -> Answer:
        ingress = self._named(request)
        try:
            if ingress is not None:
                return self._pair(request, ingress)
            if request.path == _PAIRS:
                return self._pairs(request)
        except (KeyError, TypeError, ValueError) as error:
            return self._error(400, f"not a list of cross-connects: {error}")
        table = self._tables().get(request.path)
        if table is None:
            return self._error(404, f"no data at {request.path}")
        if request.method != "GET":
            return self._error(405, f"{request.method} is not supported there")
        return Answer(200, {request.path.removeprefix("/api/data/"): table})

    def _ports(self, request: Request) -> tuple[int | str, ...]:
        ingress = self._named(request)
        return () if ingress is None else (ingress,)

    def _named(self, request: Request) -> int | None:
        """Return the input that a path names; None when it names no pair."""
        key = request.path.removeprefix(f"{_PAIRS}/pair=")
        return int(key) if key.isdecimal() else None

    def _pairs(self, request: Request) -> Answer:
        """Read, add to, replace or empty the list of cross-connects."""
        box = self._switch
        match request.method:
            case "GET":
                return self._listed(request)
            case "POST":
                new = self._read(request.content)
                if taken := box.in_use(new):
                    return self._conflict(min(taken.values()))
                box.connect(new)
                return Answer(201)
            case "PUT":
                new = self._read(request.content["optical-switch:cross-connects"])
                box.disconnect({i: e for i, e in box.commanded.items() if new.get(i) != e})
                box.connect(new)
                return Answer(204)
            case "DELETE":
                box.disconnect(dict(box.commanded))
                return Answer(204)
        return self._error(405, f"{request.method} is not supported there")

    def _listed(self, request: Request) -> Answer:
        rows = [_row(i, e) for i, e in sorted(self._switch.read_back().items())]
        tag = f'"{zlib.crc32(repr(rows).encode()):08x}"'
        if request.headers.get("if-none-match") == tag:
            return Answer(304, None, {"ETag": tag})
        if not rows:
            return Answer(204, None, {"ETag": tag})
        return Answer(200, {"optical-switch:cross-connects": {"pair": rows}}, {"ETag": tag})

    def _pair(self, request: Request, ingress: int) -> Answer:
        """Read, set or remove one cross-connect."""
        box = self._switch
        present = {i: e for i, e in box.commanded.items() if i == ingress}
        match request.method:
            case "PUT":
                return self._put(ingress, present, self._read(request.content))
            case "GET" if present:
                return Answer(200, {"optical-switch:pair": _row(ingress, present[ingress])})
            case "DELETE" if present:
                box.disconnect(present)
                return Answer(204)
            case "GET" | "DELETE":
                return self._error(404, f"port {ingress} is not connected")
        return self._error(405, f"{request.method} is not supported there")

    def _put(self, ingress: int, present: Mapping[int, int], wanted: Mapping[int, int]) -> Answer:
        if wanted.keys() != {ingress}:
            return self._error(400, f"the body is not about port {ingress}")
        others = {i: e for i, e in self._switch.commanded.items() if i != ingress}
        if wanted[ingress] in others.values() and self._switch.in_use(wanted):
            return self._conflict(wanted[ingress])
        if present != wanted:
            self._switch.disconnect(present)
        self._switch.connect(wanted)
        return Answer(204 if present else 201)

    def _read(self, content: Mapping[str, Any]) -> dict[int, int]:
        """Return the pairs of a body, the module named or not; ValueError: why not."""
        listed = content.get("optical-switch:pair", content.get("pair", []))
        rows = [(row["ingress"], row["egress"]) for row in listed]
        pairs = dict(rows)
        if len({*pairs.values()}) != len(rows):
            raise ValueError("a port is named twice")
        last = self._inputs + self._outputs
        if any(not 1 <= i <= self._inputs < e <= last for i, e in rows):
            raise ValueError("no cross-connect from an input to an output")
        return pairs

    def _tables(self) -> dict[str, Any]:
        """Return what can only be read, by path."""
        outputs = range(self._inputs + 1, self._inputs + self._outputs + 1)
        everything = range(1, self._inputs + self._outputs + 1)
        return {
            f"{_DATA}product-information": {
                "manufacturer": "Polatis",
                "model-name": f"VST-{self._inputs}x{self._outputs}-LU1-DMHNS",
                "serial-number": self._serial,
                "software-version": "6.5.2.18",
            },
            f"{_DATA}opm-power": {"port": [self._monitor(port) for port in outputs]},
            f"{_DATA}port-config": {"port": [self._config(port) for port in everything]},
        }

    def _monitor(self, port: int) -> dict[str, Any]:
        level = self._switch.power(port)
        return {"port-id": port, "power": _DARK if level is None else f"{level:.1f}"}

    def _config(self, port: int) -> dict[str, Any]:
        status = "FAILED" if self._switch.has_failed(port) else "ENABLED"
        return {"port-id": port, "status": status, "label": "", "peer-port": ""}

    def _conflict(self, port: int) -> Answer:
        return self._error(409, f"port {port} is already in use")

    def _error(self, status: int, words: str) -> Answer:
        tag = _TAGS.get(status, "operation-failed")
        error = {"error-type": "application", "error-tag": tag, "error-message": words}
        return Answer(status, {"ietf-restconf:errors": {"error": [error]}})


def _row(ingress: int, egress: int) -> dict[str, int]:
    return {"ingress": ingress, "egress": egress}
