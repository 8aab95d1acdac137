"""Driver for Calient S-series 3D MEMS switches, over their TL1.

Every port is a pair of fibres: the testbed numbers its ingress n and its egress N + n, in the order
of the names shelf.slot.port. Circuits are made one-way and named `src>dst`. Commands used and their
evidence: drivers/README.md.

A circuit is defined (ENT), put in service (ACT), and steady once it reads IS/IS/OK; until then
`unsteady` names it, and the verification of a change waits for that, as with every other family.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from testbed.bench.contracts import Identity
from testbed.clock import Deadline
from testbed.errors import UsageError
from testbed.fabric.device import Capabilities, State
from testbed.fabric.reading import NOT_MEASURED, Reading, Readings
from testbed_drivers.dialects.tl1 import Rows, Tl1
from testbed_drivers.dialects.tl1_syntax import Request, keyed
from testbed_drivers.switches.calient_ports import capabilities_with, reading, trouble
from testbed_drivers.switches.descriptors.calient import CalientOptions
from testbed_drivers.switches.per_circuit import PerCircuitSwitch, Refused
from testbed_drivers.switches.switch import checked_state
from testbed_drivers.transports.base import Endpoint


@dataclass(frozen=True, slots=True)
class Circuit:
    """One cross-connect by the switch's names, and the ports that it connects by our numbers."""

    name: str
    group: str
    ends: tuple[str, str]
    pairs: frozenset[tuple[int, int]]
    status: str = ""
    """Administrative, operational and optical state: `IS/IS/OK` is in order."""

    @property
    def in_service(self) -> bool:
        """Return whether the circuit was activated; one that is only defined carries no light."""
        return not self.status.startswith("UMA/")

    @property
    def trouble(self) -> str:
        """Return why the circuit is not steady, or an empty string."""
        return trouble(self.status)

    def order(self, verb: str) -> Request:
        """Return the command that defines, activates, cancels or deletes the circuit."""
        payload = {
            "ENT-CRS": f"{self.group},1WAY",
            "ACT-CRS": f"{self.name},{self.group}",
        }.get(verb, f",{self.group},{self.name}")
        return Request(verb, ",".join(self.ends), ("", payload))


class Calient(PerCircuitSwitch[CalientOptions, Tl1]):
    """Driver of a Calient switch with TL1."""

    def _new_dialect(self, endpoint: Endpoint) -> Tl1:
        self._names = self._options.port_names()
        self._numbers = {name: number for number, name in enumerate(self._names, 1)}
        self._listed: list[Circuit] = []
        """What the last read-back showed, for the names and labels of what is taken down."""
        return Tl1(endpoint, self._options, (Request("RTRV-NE"),), _identity)

    def state(self, deadline: Deadline) -> State:
        """Read back every cross-connect in service, including those of other clients."""
        return {i: e for circuit in self._in_service(deadline) for i, e in circuit.pairs}

    def unsteady(self, deadline: Deadline) -> Mapping[int, str]:
        """Return the cross-connects that are not steady, with the switch's status text."""
        circuits = [circuit for circuit in self._in_service(deadline) if circuit.trouble]
        return {i: circuit.trouble for circuit in circuits for i, _ in circuit.pairs}

    def power(self, ports: Iterable[int], deadline: Deadline) -> Readings:
        """Measure the optical power at ports; every port of this switch has a monitor."""
        others = dict.fromkeys(ports, NOT_MEASURED)
        known = self.capabilities.monitored & others.keys()
        wanted = [(port, *divmod(port - 1, len(self._names))) for port in sorted(known)]
        places = sorted({place for _, _, place in wanted})
        queries = [Request("RTRV-PORT", self._names[place]) for place in places]
        levels = self._dialect.query(queries, partial(_levels, places), deadline) if queries else {}
        return others | {port: levels[place][side] for port, side, place in wanted}

    def _read_capabilities(self, identity: Identity, deadline: Deadline) -> Capabilities:
        return capabilities_with(self._options, len(self._names))

    def _disconnect(self, pairs: State, deadline: Deadline) -> Refused:
        """Take circuits out of service, then delete them."""
        named = [c for c in self._listed if c.in_service and c.pairs & pairs.items()]
        for circuit in named:
            self._check_ours(circuit, pairs)
        refused = self._ordered("CANC-CRS", named, deadline)
        idle = [c for c in named if not {i for i, _ in c.pairs} & refused.keys()]
        return refused | self._ordered("DLT-CRS", idle, deadline)

    def _connect(self, pairs: State, deadline: Deadline) -> Refused:
        """Define circuits, then put them in service; delete what could be defined only.

        What a change that was cut short has left defined, with our label, is deleted first.
        """
        ports = {*pairs, *pairs.values()}
        left = [c for c in self._listed if not c.in_service and self._is_left(c, ports)]
        self._ordered("DLT-CRS", left, deadline)
        new = {i: self._new(i, e) for i, e in sorted(pairs.items())}
        refused = self._ordered("ENT-CRS", list(new.values()), deadline)
        defined = {i: circuit for i, circuit in new.items() if i not in refused}
        dead = self._ordered("ACT-CRS", list(defined.values()), deadline)
        self._ordered("DLT-CRS", [defined[i] for i in dead], deadline)
        return refused | dead

    def _is_left(self, circuit: Circuit, ports: set[int]) -> bool:
        ends = {port for pair in circuit.pairs for port in pair}
        return circuit.group == self._options.group and bool(ends & ports)

    def _ordered(self, verb: str, circuits: Sequence[Circuit], deadline: Deadline) -> Refused:
        """Send one command for each circuit; return what was refused."""
        orders = [(circuit.order(verb), dict(circuit.pairs)) for circuit in circuits]
        return self._dialect.refused(orders, deadline)

    def _check_ours(self, circuit: Circuit, pairs: State) -> None:
        """Refuse to take down what has another label, or what was not named as a whole."""
        if circuit.group != self._options.group:
            raise UsageError(
                f"{self._name}: {circuit.name} is a circuit of the group {circuit.group}",
                hint=f"only circuits of {self._options.group} are removed; see the option 'group'",
            )
        if not circuit.pairs <= pairs.items():
            raise UsageError(
                f"{self._name}: {circuit.name} is a circuit in both directions",
                hint="remove both directions in one change",
            )

    def _new(self, ingress: int, egress: int) -> Circuit:
        source = self._names[ingress - 1]
        destination = self._names[egress - len(self._names) - 1]
        ends, pairs = (source, destination), frozenset({(ingress, egress)})
        return Circuit(f"{source}>{destination}", self._options.group, ends, pairs)

    def _in_service(self, deadline: Deadline) -> list[Circuit]:
        """Read back all circuits, remember them, and return those in service."""
        query = Request("RTRV-CRS", "", ("", "ALL"))
        listed = self._dialect.query([query], self._read, deadline)
        return [circuit for circuit in listed if circuit.in_service]

    def _read(self, answers: Sequence[Rows]) -> list[Circuit]:
        circuits = [circuit for row in answers[0] if (circuit := self._circuit(row))]
        pairs = [pair for circuit in circuits if circuit.in_service for pair in circuit.pairs]
        names = ", ".join(circuit.name for circuit in circuits)
        checked_state(pairs, self.capabilities, names, self._ports)
        self._listed = circuits  # here, as another thread may be in the middle of a change
        return circuits

    def _circuit(self, row: str) -> Circuit | None:
        """Return the circuit of a row `1.1.1>2.1.1:SRCPORT=1.1.1,…`.

        None where a port is none of this shape and the other none of ours.
        """
        values = keyed(row.partition(":")[2])
        if missing := _KEYS - values.keys():
            raise ValueError(f"{row!r} has no {min(missing)}")
        ends = values["SRCPORT"], values["DSTPORT"]
        known = {self._numbers[end] for end in ends if end in self._numbers}
        if strange := [end for end in ends if end not in self._numbers]:
            if not self._ports & {*known, *(len(self._names) + number for number in known)}:
                return None
            raise ValueError(f"{row!r} has a port {strange[0]} outside of {self._options.shape}")
        source, destination = (self._numbers[end] for end in ends)
        count = len(self._names)
        pairs = {(source, count + destination)}
        if values["CONNTYPE"] == "2WAY":
            pairs.add((destination, count + source))
        status = "/".join(values[key] for key in ("AS", "OS", "OC"))
        return Circuit(values["CONNNAME"], values["GRPNAME"], ends, frozenset(pairs), status)


_KEYS = {"SRCPORT", "DSTPORT", "GRPNAME", "CONNNAME", "CONNTYPE", "AS", "OS", "OC"}


def _identity(answers: Sequence[Rows]) -> Identity:
    values = keyed(",".join(answers[0]))
    if not values.get("SERIALNUMBER"):
        raise ValueError(f"{answers[0]} has no serial number")
    model, firmware = values.get("CHASSISTYPE", ""), values.get("SWPACKAGE", "")
    return Identity("Calient", model, values["SERIALNUMBER"], firmware)


def _levels(places: Sequence[int], answers: Sequence[Rows]) -> dict[int, tuple[Reading, Reading]]:
    """Return what enters and what leaves each port; `NONE` is no light."""
    levels = {}
    for place, rows in zip(places, answers, strict=True):
        values = keyed(",".join(rows).partition(":")[2])
        if not {"INPWR", "OUTPWR"} <= values.keys():
            raise ValueError(f"{rows} has no levels")
        levels[place] = reading(values["INPWR"]), reading(values["OUTPWR"])
    return levels
