"""A simulated Calient switch with the part of its REST interface that drivers use.

Assumptions beyond public documents are listed in drivers/README.md.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from testbed.bench.sites import SwitchSite
from testbed_drivers.dialects.http_far_end import Answer, Request
from testbed_drivers.dialects.rest_far_end import RestFarEnd
from testbed_drivers.switches import simulated_switch
from testbed_drivers.switches.calient_ports import STATES, PortNames, level
from testbed_drivers.switches.descriptors.calient import CalientRestOptions
from testbed_drivers.switches.simulated_switch import SimulatedSwitch

FAULTS = {
    "half-refused": "does the first half of a list of circuits and refuses each of the others",
}
"""What it can do wrong beyond any switch behind a web service."""

Status = dict[str, dict[str, str]]
"""What became of one order: `1` done, `0` refused, in words."""


class CalientRestFarEnd(RestFarEnd):
    """A simulated Calient switch, which keeps its circuits over a loss of power."""

    def __init__(self, site: SwitchSite, options: CalientRestOptions | None = None) -> None:
        self._names = PortNames.first(_ports_at(site))
        self._serial = site.serial
        self._both_ways: set[str] = set()
        self._groups: dict[str, str] = {}
        faults = {**simulated_switch.FAULTS, **FAULTS}
        super().__init__(faults, options or CalientRestOptions(), site)
        self._cookies: set[str] = set()
        self._switch = SimulatedSwitch(site, self.faults, self.lock)
        self.at_once |= self._switch.at_once(self._end_logins, lambda: dict(self._switch.commanded))

    def _end_logins(self) -> None:
        self._cookies.clear()
        self.hang_up()

    def _route(self, request: Request) -> Answer:
        answer = self._read_only(request) if request.method == "GET" else self._order(request)
        if request.headers.get("cookie") in self._cookies:
            return answer
        cookie = f"session={secrets.token_hex(8)}"
        self._cookies.add(cookie)
        return answer._replace(headers={"Set-Cookie": f"{cookie}; Path=/rest"})

    def _read_only(self, request: Request) -> Answer:
        match request.path, request.query.get("id"), request.query.get("detail"):
            case "/rest/crossconnects", "list", _:
                return Answer(200, self._rows())
            case "/rest/crossconnects", "detail", _:
                wanted = request.query.get("conn")
                return Answer(200, [row for row in self._rows() if row["name"] == wanted])
            case "/rest/ports", "summary", _:
                numbers = range(1, len(self._names) + 1)
                return Answer(200, [self._port(number) for number in numbers])
            case "/rest/node", "summary", "SYSCFG":
                model = f"S{len(self._names)}"
                return Answer(200, {"serialnumber": self._serial, "partnumber": model})
            case "/rest/info", "softwareversion", _:
                return Answer(200, {"version": "6.1.0"})
        return self._error(404, f"there is no {request.target}")

    def _order(self, request: Request) -> Answer:
        match request.method, request.path, request.query.get("id"):
            case "POST", "/rest/crossconnects", "deleteall":
                self._switch.disconnect(dict(self._switch.commanded))
                return Answer(200, _done())
            case "DELETE", "/rest/crossconnects", "delete":
                return Answer(200, self._delete([{"conn": request.query.get("conn", "")}])[0])
            case "POST", "/rest/crossconnects", ("add" | "badd" | "bdel") as verb:
                return self._listed(verb, request)
        return self._error(404, f"there is no {request}")

    def _listed(self, verb: str, request: Request) -> Answer:
        """Carry out an order for one circuit or for a list of them."""
        act = self._delete if verb == "bdel" else self._add
        try:
            content = request.content
            answers = act([content] if verb == "add" else content)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return self._error(400, f"not a list of cross-connects: {error}")
        return Answer(200, answers[0] if verb == "add" else answers)

    def _add(self, items: list[Any]) -> list[Status]:
        """Make circuits, each on its own; a port in use, be it since just now, is refused."""
        accepted: dict[int, int] = {}

        def add(item: dict[str, str]) -> Status:
            arrow = "-" if item.get("dir", "bi") == "bi" else ">"
            circuit = f"{item['in']}{arrow}{item['out']}"
            new = self._names.pairs(circuit)
            taken = {*accepted, *accepted.values()} & {*new, *new.values()}
            if taken or self._switch.in_use(new):
                return _refused("Invalid Connection", f"a port of {circuit} is in use")
            accepted.update(new)
            self._both_ways.update({circuit} if arrow == "-" else ())
            self._groups[circuit] = item.get("group", "SYSTEM")
            return _done()

        answers = self._each(items, add)
        self._switch.connect(accepted)
        return answers

    def _delete(self, items: list[Any]) -> list[Status]:
        """Take circuits down by their names, each on its own."""
        gone: dict[int, int] = {}
        there = {row["name"] for row in self._rows()}

        def delete(item: dict[str, str]) -> Status:
            if item["conn"] not in there:
                return _refused("Invalid Connection", f"there is no circuit {item['conn']!r}")
            gone.update(self._names.pairs(item["conn"]))
            self._both_ways.discard(item["conn"])
            return _done()

        answers = self._each(items, delete)
        self._switch.disconnect(gone)
        return answers

    def _each(self, items: list[Any], act: Callable[[Any], Status]) -> list[Status]:
        """Return one status per item of a list; what is no port is refused like any other item."""
        few = len(items)
        if few > 1 and self.faults.strikes("half-refused"):
            few //= 2

        def status(item: Any) -> Status:
            try:
                return act(item)
            except ValueError as error:
                return _refused("Invalid Port", str(error))

        done = [status(item) for item in items[:few]]
        return done + [_refused("Operation Failed", "controller is busy")] * (len(items) - few)

    def _rows(self) -> list[dict[str, Any]]:
        """Return the list of circuits; one that goes both ways has two halves while it is whole."""
        shown = self._switch.read_back()
        whole = [
            n for n in sorted(self._both_ways) if self._names.pairs(n).items() <= shown.items()
        ]
        paired = {i for name in whole for i in self._names.pairs(name)}
        rows = [self._row(name, "bi", self._names.pairs(name)) for name in whole]
        single = {i: e for i, e in sorted(shown.items()) if i not in paired}
        return rows + [
            self._row(self._names.circuit(i, e), "uni", {i: e}) for i, e in single.items()
        ]

    def _row(self, name: str, direction: str, pairs: Mapping[int, int]) -> dict[str, Any]:
        halves = {
            f"half{number}": self._half(ingress, egress)
            for number, (ingress, egress) in enumerate(pairs.items(), 1)
        }
        group = self._groups.get(name, "SYSTEM")
        return {"name": name, "group": group, "dir": direction, "band": "", **halves}

    def _half(self, ingress: int, egress: int) -> dict[str, str]:
        enters, leaves = self._switch.power(ingress), self._switch.power(egress)
        loss = None if enters is None or leaves is None else enters - leaves
        admin, operational, capability = STATES[self._switch.unsteady().get(ingress, "")].split("/")
        return {
            "conn": self._names.circuit(ingress, egress),
            "inp": level(enters),
            "outp": level(leaves),
            "loss": level(loss),
            "alarm": "CL",
            "as": admin,
            "os": operational,
            "oc": capability,
        }

    def _port(self, number: int) -> dict[str, str]:
        names = [
            self._names.circuit(ingress, egress)
            for ingress, egress in self._switch.commanded.items()
            if number in (ingress, egress - len(self._names))
        ]
        circuit = names[0] if names else ""
        power = level(self._switch.power(number))
        port = {"port": self._names.name(number), "conn": circuit, "connid": circuit}
        return port | {"power": power, "inalias": "", "outalias": ""}

    def _error(self, status: int, words: str) -> Answer:
        return Answer(status, _refused(HTTPStatus(status).phrase, words))


def _ports_at(site: SwitchSite) -> int:
    """Return the ports of the smallest Calient switch that has the site's fibres."""
    count = max(max(site.ingress), math.ceil(max(site.egress) / 2))
    if min(site.egress) <= count:
        raise ValueError(f"a Calient switch of {count} ports numbers its outputs from {count + 1}")
    return count


def _done() -> Status:
    return {"response": {"status": "1", "msg": "", "description": ""}}


def _refused(words: str, description: str) -> Status:
    return {"response": {"status": "0", "msg": words, "description": description}}
