"""Driver for Calient S-series and Edge640 MEMS switches with their REST interface.

Circuits are made one way and named by their ends. A success status of HTTP is not sufficient: every
circuit of a list has a status of its own. Paths used and their evidence: drivers/README.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from testbed.bench.contracts import Identity
from testbed.clock import Deadline
from testbed.errors import Rejected
from testbed.fabric.device import Capabilities, State
from testbed.fabric.reading import NOT_CONNECTED, NOT_MEASURED, Readings
from testbed_drivers.dialects.http_line import Json
from testbed_drivers.dialects.rest import Get, Rest, WebService
from testbed_drivers.switches.calient_ports import PortNames, capabilities_with, reading, trouble
from testbed_drivers.switches.descriptors.calient import CalientRestOptions
from testbed_drivers.switches.per_circuit import PerCircuitSwitch, Refused
from testbed_drivers.switches.switch import checked_state, portions
from testbed_drivers.transports.base import Endpoint

CIRCUITS = "/rest/crossconnects/?id="
LIST = f"{CIRCUITS}list"
PORTS = "/rest/ports/?id=summary"
DENIED = re.compile(r"(?i).*[?&]id=deleteall\b.*")
"""Requests that remove the circuits of all clients."""
CIRCUITS_PER_ORDER = 64
"""The longest list that is sent; the switch's own limit is not public."""

Order = tuple[dict[str, str], State]
"""An item of a list, and the circuits that it is about."""


@dataclass(frozen=True, slots=True)
class Half:
    """One direction of a cross-connect: its ports, its status, the light at its ends."""

    circuit: str
    group: str
    ingress: int
    egress: int
    status: str
    enters: Json
    leaves: Json


class CalientRest(PerCircuitSwitch[CalientRestOptions, Rest]):
    """Driver of a Calient switch with REST."""

    def _new_dialect(self, endpoint: Endpoint) -> Rest:
        self._names = PortNames(())
        self._seen: list[Half] = []
        """What was read last; a change begins with reading, and holds the line since."""
        service = WebService(
            _identity,
            _words,
            denied=DENIED,
            not_found_hint="this release does not offer that; its pages at /api/ list what it does",
        )
        return Rest(endpoint, self._options, service)

    def state(self, deadline: Deadline) -> State:
        """Read back every cross-connect, also of other clients and out of service."""
        return {half.ingress: half.egress for half in self._halves(deadline)}

    def unsteady(self, deadline: Deadline) -> Mapping[int, str]:
        """Return the cross-connects that are not steady, with the switch's status text."""
        return {
            half.ingress: words
            for half in self._halves(deadline)
            if (words := trouble(half.status))
        }

    def power(self, ports: Iterable[int], deadline: Deadline) -> Readings:
        """Measure the optical power at ports; only ends of cross-connects have values."""
        wanted = list(ports)
        known = self.capabilities.monitored
        others = {port: NOT_CONNECTED if port in known else NOT_MEASURED for port in wanted}

        def ask(get: Get) -> Readings:
            seen = others.copy()
            for half in self._listed(get):
                ends = {half.ingress: half.enters, half.egress: half.leaves}
                seen |= {port: reading(word) for port, word in ends.items() if port in others}
            return seen

        return self._dialect.read(ask, deadline) if wanted else {}

    def _read_capabilities(self, identity: Identity, deadline: Deadline) -> Capabilities:
        self._names = self._dialect.read(
            lambda get: PortNames(row["port"] for row in get(PORTS)), deadline
        )
        return capabilities_with(self._options, len(self._names))

    def _disconnect(self, pairs: State, deadline: Deadline) -> Refused:
        """Remove circuits by the names that they have, whole ones of our group."""
        circuits: dict[str, list[Half]] = {}
        for half in self._seen:
            circuits.setdefault(half.circuit, []).append(half)
        refused: Refused = {}
        orders: list[Order] = []
        for name, halves in sorted(circuits.items()):
            ends = {half.ingress: half.egress for half in halves}
            if not ends.items() & pairs.items():
                continue
            if why := self._not_ours(name, halves[0].group, whole=ends.items() <= pairs.items()):
                refused |= dict.fromkeys(ends.keys() & pairs.keys(), why)
            else:
                orders.append(({"conn": name}, ends))
        return refused | self._bulk("bdel", orders, deadline)

    def _not_ours(self, circuit: str, group: str, *, whole: bool) -> str:
        """Return why a circuit is not taken down; an empty string when it is."""
        if group != self._options.group:
            return f"{circuit} is a circuit of the group {group}"
        return "" if whole else f"{circuit} goes both ways and is taken down only as a whole"

    def _connect(self, pairs: State, deadline: Deadline) -> Refused:
        orders = [(self._new(i, e), {i: e}) for i, e in sorted(pairs.items())]
        return self._bulk("badd", orders, deadline)

    def _new(self, ingress: int, egress: int) -> dict[str, str]:
        ends = {"in": self._names.name(ingress), "out": self._names.name(egress)}
        return {**ends, "dir": "uni", "group": self._options.group}

    def _bulk(self, verb: str, orders: Sequence[Order], deadline: Deadline) -> Refused:
        """Send lists of orders; return what was refused of them, by ingress.

        A list that is refused as a whole ends it: those after it would fare no better.
        """
        refused: Refused = {}
        for some in portions(orders, CIRCUITS_PER_ORDER):
            body = [item for item, _ in some]
            parse = partial(_refusals, count=len(some))
            what = f"{verb} of {len(some)} circuits"
            try:
                words = self._dialect.order(
                    what, "POST", CIRCUITS + verb, body, deadline, parse=parse
                )
            except Rejected as error:
                left = [ends for _, ends in orders[orders.index(some[0]) :]]
                return refused | {i: error.reply for ends in left for i in ends}
            for (_, ends), why in zip(some, words, strict=True):
                refused |= dict.fromkeys(ends, why) if why else {}
        return refused

    def _halves(self, deadline: Deadline) -> list[Half]:
        with self._dialect.held(deadline):
            self._seen = self._dialect.read(self._listed, deadline)
            return self._seen

    def _listed(self, get: Get) -> list[Half]:
        rows = get(LIST)
        halves = [half for row in rows or () for half in self._read(row)]
        pairs = ((half.ingress, half.egress) for half in halves)
        checked_state(pairs, self.capabilities, str(rows), self._ports)
        return halves

    def _read(self, row: dict[str, Any]) -> Iterator[Half]:
        """Read a row of the list: `half1`, and `half2` of a circuit that goes both ways."""
        first = row["half1"]["conn"]
        circuit = first.replace(">", "-") if "half2" in row else first
        for half in (row["half1"], *([row["half2"]] if "half2" in row else [])):
            ((ingress, egress),) = self._names.pairs(half["conn"]).items()
            status = "/".join(str(half[key]) for key in ("as", "os", "oc"))
            levels = half.get("inp"), half.get("outp")
            yield Half(circuit, row["group"], ingress, egress, status, *levels)


def _refusals(answer: Json, count: int) -> list[str]:
    """Return why each circuit of a list was refused; an empty string where it was not."""
    if len(answer) != count:
        raise ValueError(f"{len(answer)} statuses for {count} circuits")
    responses = [item["response"] for item in answer]
    if strange := {str(response["status"]) for response in responses} - {"0", "1"}:
        raise ValueError(f"a status of {strange.pop()!r}")
    return ["" if str(each["status"]) == "1" else _response_words(each) for each in responses]


def _identity(get: Get) -> Identity:
    about = get("/rest/node/?id=summary&detail=SYSCFG")
    version = get("/rest/info/?id=softwareversion")["version"]
    return Identity("Calient", about["partnumber"], about["serialnumber"], version)


def _words(content: Json) -> str:
    """Return what a refusal of a whole request says."""
    return _response_words(content.get("response", content))


def _response_words(response: dict[str, Any]) -> str:
    words = (str(response.get(key) or "") for key in ("msg", "description"))
    return ": ".join(filter(None, words)) or "refused without words"
