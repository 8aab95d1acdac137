"""Driver for Polatis (HUBER+SUHNER) piezo switches with their TL1 interface.

Inputs are ports 1..N, outputs N+1..N+M. Commands used and their evidence: drivers/README.md. The
switch's own command for flapping a port is not used: the units of its intervals are not confirmed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from testbed.bench.contracts import Identity
from testbed.clock import Deadline
from testbed.errors import Rejected
from testbed.fabric.device import Capabilities, State
from testbed.fabric.reading import NOT_MEASURED, Readings, above
from testbed_drivers.dialects.tl1 import Rows, Tl1
from testbed_drivers.dialects.tl1_syntax import Request, listed
from testbed_drivers.switches.descriptors.polatis import PolatisTl1Options
from testbed_drivers.switches.per_circuit import PerCircuitSwitch, Refused
from testbed_drivers.switches.polatis import declared_monitors
from testbed_drivers.switches.power_monitors import monitored_ports
from testbed_drivers.switches.switch import capabilities_of, checked_state, portions, sides, size
from testbed_drivers.transports.base import Endpoint

PORTS_PER_COMMAND = 64
"""The longest list that is sent; the switch's own limit is not public."""


class PolatisTl1(PerCircuitSwitch[PolatisTl1Options, Tl1]):
    """Driver of a Polatis switch with TL1."""

    def _new_dialect(self, endpoint: Endpoint) -> Tl1:
        queries = (Request("RTRV-NETYPE", "", ("",)), Request("RTRV-INV", "OCS", ("",)))
        return Tl1(endpoint, self._options, queries, _identity)

    def state(self, deadline: Deadline) -> State:
        """Read back every cross-connect, including those of other clients."""
        parse = partial(_state, self.capabilities, self._ports)
        return self._dialect.query([Request("RTRV-PATCH", "", ("",))], parse, deadline)

    def power(self, ports: Iterable[int], deadline: Deadline) -> Readings:
        """Measure the optical power at ports; only ports with a monitor are queried."""
        others = dict.fromkeys(ports, NOT_MEASURED)
        wanted = sorted(self.capabilities.monitored & others.keys())
        some = portions(wanted, PORTS_PER_COMMAND)
        queries = [Request("RTRV-PORT-POWER", listed(ports), ("",)) for ports in some]
        parse = partial(_levels, wanted, self._options.floor)
        return {**others, **self._dialect.query(queries, parse, deadline)} if wanted else others

    def _read_capabilities(self, identity: Identity, deadline: Deadline) -> Capabilities:
        query = Request("RTRV-EQPT", "SYSTEM", ("", "", "PARAMETER=SIZE"))
        counts = self._options.size or self._dialect.query([query], _size, deadline)
        ingress, egress = sides(*counts)
        declared = declared_monitors(self._options.monitors, identity)
        reads = partial(self._reads, deadline)
        monitored = monitored_ports(declared, ingress, egress, reads, PORTS_PER_COMMAND)
        return capabilities_of(self._options, (ingress, egress), monitored=monitored)

    def _reads(self, deadline: Deadline, ports: Sequence[int]) -> bool:
        """Ask for the light of ports; tell whether the switch reads all of them."""
        query = Request("RTRV-PORT-POWER", listed(ports), ("",))
        try:
            self._dialect.query([query], partial(_levels, ports, self._options.floor), deadline)
        except Rejected:
            return False
        return True

    def _disconnect(self, pairs: State, deadline: Deadline) -> Refused:
        # One end names a circuit. Both ends would name two when another client has just moved one.
        return self._each("DLT-PATCH", listed, pairs, deadline)

    def _connect(self, pairs: State, deadline: Deadline) -> Refused:
        return self._each("ENT-PATCH", _both_ends, pairs, deadline)

    def _each(
        self, verb: str, named: Callable[[State], str], pairs: State, deadline: Deadline
    ) -> Refused:
        """Give orders about circuits, so many in each; return those that were refused."""
        lists = [dict(some) for some in portions(sorted(pairs.items()), PORTS_PER_COMMAND)]
        orders = [(Request(verb, named(some), ("",)), some) for some in lists]
        return self._dialect.refused(orders, deadline)


def _both_ends(pairs: State) -> str:
    return f"{listed(pairs)},{listed(pairs.values())}"


def _identity(answers: Sequence[Rows]) -> Identity:
    (kind,), inventory = answers
    maker, model, _, firmware = (part.strip() for part in kind.split(",", 3))
    serial = re.search(r"\bSN=([^,:\s]+)", ",".join(inventory))
    if serial is None:
        raise ValueError(f"{inventory} has no serial number")
    return Identity(maker, model, serial[1], firmware)


def _size(answers: Sequence[Rows]) -> tuple[int, int]:
    match = re.search(r"\bSIZE=(\d+)x(\d+)", ",".join(answers[0]))
    if match is None:
        raise ValueError(f"{answers[0]} has no size")
    return size(int(match[1]), int(match[2]))


def _state(can: Capabilities, ours: frozenset[int], answers: Sequence[Rows]) -> State:
    """Return the cross-connects of rows `1,17`; either end may come first."""
    pairs = [tuple(sorted(map(int, row.split(",")))) for row in answers[0]]
    return checked_state(((i, e) for i, e in pairs), can, ", ".join(answers[0]), ours)


def _levels(ports: Sequence[int], floor: float, answers: Sequence[Rows]) -> Readings:
    """Return the levels of rows `17:-3.1`, which must be of exactly these ports."""
    rows = [row.partition(":") for rows in answers for row in rows]
    levels = {int(port): float(level) for port, _, level in rows}
    if sorted(levels) != list(ports):
        raise ValueError(f"levels of ports {sorted(levels)} instead of {list(ports)}")
    return {port: above(floor, level) for port, level in levels.items()}
