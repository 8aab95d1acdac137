"""Driver for Polatis (HUBER+SUHNER) piezo switches with their RESTCONF interface.

Inputs are ports 1..N, outputs N+1..N+M. Every cross-connect is a request of its own. One lab saw
cross-connects that were POSTed as a list vanish after five seconds, so each is PUT separately; a
PUT on an input in use would move it, so the driver refuses that. The list as a whole is never
written, because the switch would remove all other circuits. Paths used and their evidence:
drivers/README.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from testbed.bench.contracts import Identity
from testbed.clock import Deadline
from testbed.errors import Garbled, Rejected, UsageError
from testbed.fabric.device import Capabilities, State
from testbed.fabric.reading import NOT_MEASURED, Readings, above
from testbed_drivers.dialects.http_line import Json
from testbed_drivers.dialects.rest import Get, Rest, WebService
from testbed_drivers.switches.descriptors.polatis import PolatisRestconfOptions
from testbed_drivers.switches.per_circuit import PerCircuitSwitch, Refused, order_each
from testbed_drivers.switches.switch import capabilities_of, checked_state, sides, size
from testbed_drivers.transports.base import Endpoint

DATA = "/api/data/optical-switch:"
PAIRS = f"{DATA}cross-connects"
DENIED = re.compile(rf"(PUT|PATCH|DELETE) {re.escape(PAIRS)}(/|/pair/?)?")
"""What writes or removes all cross-connects at once."""


class PolatisRestconf(PerCircuitSwitch[PolatisRestconfOptions, Rest]):
    """Driver of a Polatis switch with RESTCONF."""

    def _new_dialect(self, endpoint: Endpoint) -> Rest:
        service = WebService(
            _identity,
            _words,
            media="application/yang-data+json",
            denied=DENIED,
            etag_paths=(PAIRS,),
            not_found_hint="this firmware does not offer that; use the driver 'polatis'",
        )
        return Rest(endpoint, self._options, service)

    def state(self, deadline: Deadline) -> State:
        """Read back every cross-connect, including those of other clients."""
        return self._dialect.read(partial(_state, self.capabilities, self._ports), deadline)

    def unsteady(self, deadline: Deadline) -> Mapping[int, str]:
        """Return the cross-connects with a port that is not enabled, with the port's status."""
        state = self.state(deadline)
        if not state:
            return {}
        flags = self._dialect.read(partial(_ports, "port-config", "status"), deadline)
        return {
            ingress: flags[port].lower()
            for ingress, egress in state.items()
            for port in (ingress, egress)
            if flags[port] != "ENABLED"
        }

    def power(self, ports: Iterable[int], deadline: Deadline) -> Readings:
        """Measure the optical power at ports; the switch lists those with a monitor."""
        wanted = dict.fromkeys(ports, NOT_MEASURED)
        if not self.capabilities.monitored & wanted.keys():
            return wanted
        return self._dialect.read(partial(self._levels, wanted), deadline)

    def _read_capabilities(self, identity: Identity, deadline: Deadline) -> Capabilities:
        ingress, egress = sides(*(self._options.size or self._size(identity)))
        try:
            monitored = self._dialect.read(partial(_ports, "opm-power", "power"), deadline)
        except Rejected as error:
            self._dialect.note(f"no power monitors: {error}")
            monitored = {}
        return capabilities_of(
            self._options,
            (ingress, egress),
            steadiness=True,
            monitored=frozenset(monitored) & (ingress | egress),
        )

    def _size(self, identity: Identity) -> tuple[int, int]:
        match = re.search(r"(\d+)x(\d+)", identity.model)
        if match is None:
            raise UsageError(
                f"{self._name}: its model {identity.model!r} does not say how many ports it has",
                hint="write 'size' in the lab file, as in size: [16, 16]",
            )
        try:
            return size(int(match[1]), int(match[2]))
        except ValueError as error:
            raise Garbled(self._name, f"its model is {identity.model!r}: {error}") from error

    def _disconnect(self, pairs: State, deadline: Deadline) -> Refused:
        def remove(ingress: int, egress: int) -> None:
            # 404: another client was faster, and what is wanted is reached
            self._order("DELETE", ingress, egress, None, deadline, accepted=(404,))

        return order_each(pairs, remove)

    def _connect(self, pairs: State, deadline: Deadline) -> Refused:
        def make(ingress: int, egress: int) -> None:
            body = {"optical-switch:pair": [{"ingress": ingress, "egress": egress}]}
            self._order("PUT", ingress, egress, body, deadline)

        return order_each(pairs, make)

    def _order(
        self,
        method: str,
        ingress: int,
        egress: int,
        body: Json,
        deadline: Deadline,
        *,
        accepted: tuple[int, ...] = (),
    ) -> None:
        what = f"{method} {ingress}→{egress}"
        path = f"{PAIRS}/pair={ingress}"
        self._dialect.order(
            what, method, path, body, deadline, parse=lambda _: None, accepted=accepted
        )

    def _levels(self, ports: Readings, get: Get) -> Readings:
        listed = _ports("opm-power", "power", get)
        floor = self._options.floor
        return {p: above(floor, float(listed[p])) if p in listed else ports[p] for p in ports}


def _identity(get: Get) -> Identity:
    about = get(f"{DATA}product-information")["optical-switch:product-information"]
    serial, model, firmware = (
        str(about[key]) for key in ("serial-number", "model-name", "software-version")
    )
    return Identity(str(about.get("manufacturer", "Polatis")), model, serial, firmware)


def _state(can: Capabilities, ours: frozenset[int], get: Get) -> State:
    """Return the cross-connects; without any the switch has no content. Ends come either way."""
    content = get(PAIRS)
    listed = [] if content is None else content["optical-switch:cross-connects"].get("pair", [])
    ends = (sorted((int(pair["ingress"]), int(pair["egress"]))) for pair in listed)
    return checked_state(((first, last) for first, last in ends), can, str(content), ours)


def _ports(table: str, key: str, get: Get) -> dict[int, str]:
    """Return one column of a table of ports, by port, where it has an entry."""
    content = get(f"{DATA}{table}")
    rows: list[dict[str, Any]] = (
        [] if content is None else content[f"optical-switch:{table}"]["port"]
    )
    return {int(row["port-id"]): str(row[key]) for row in rows if key in row}


def _words(content: Json) -> str:
    """Return what a RESTCONF error says (RFC 8040, section 7.1)."""
    error = content["ietf-restconf:errors"]["error"][0]
    return str(error.get("error-message") or error["error-tag"])
