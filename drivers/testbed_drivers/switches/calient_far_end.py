"""A simulated Calient S-series switch: circuits are defined, then put in service; its TL1.

Assumptions beyond public documents are listed in drivers/README.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.bench.sites import SwitchSite
from testbed_drivers.dialects.tl1_commands import Command
from testbed_drivers.dialects.tl1_far_end import Denied, Handler, Tl1FarEnd, account
from testbed_drivers.switches import simulated_switch
from testbed_drivers.switches.calient_ports import STATES, level
from testbed_drivers.switches.descriptors.calient import CalientOptions
from testbed_drivers.switches.simulated_switch import SimulatedSwitch

_NOT_HERE = ("partial", "lag", "flap")
FAULTS = {name: what for name, what in simulated_switch.FAULTS.items() if name not in _NOT_HERE}
"""What it can do wrong: every circuit has a command and an answer of its own."""


@dataclass(slots=True)
class Circuit:
    """One cross-connect stored in the switch; `pairs` are internal port numbers."""

    name: str
    group: str
    kind: str
    pairs: dict[int, int]
    active: bool = False

    def meets(self, other: Circuit) -> bool:
        """Return whether two circuits have a fibre in common; some devices accept such a pair."""
        return not self.ends.isdisjoint(other.ends)

    @property
    def ends(self) -> set[int]:
        """Return the fibres that the circuit joins."""
        return {*self.pairs, *self.pairs.values()}


class CalientFarEnd(Tl1FarEnd):
    """A simulated Calient switch, which keeps its circuits over a loss of power."""

    def __init__(self, site: SwitchSite, options: CalientOptions | None = None) -> None:
        options = options or CalientOptions()
        self._names = options.port_names()
        self._model = f"S{len(self._names)}"
        self._serial = site.serial
        self._circuits: dict[str, Circuit] = {}
        accounts = account(options.user, options.password)
        super().__init__("OCS", accounts, self._commands(), FAULTS, site)
        self._switch = SimulatedSwitch(site, self.faults, self.lock)
        self.at_once |= self._switch.at_once(self.hang_up, lambda: dict(self._switch.commanded))

    def _commands(self) -> dict[str, Handler]:
        return {
            "ENT-CRS": self._enter,
            "ACT-CRS": self._activate,
            "CANC-CRS": self._cancel,
            "DLT-CRS": self._delete,
            "DLT-CRS-ALL": self._delete_all,
            "RTRV-CRS": self._cross_connects,
            "RTRV-PORT": lambda request: [self._port(self._number(request.aid))],
            "RTRV-PORT-SUM": lambda _: [self._port(n + 1) for n in range(len(self._names))],
            "RTRV-NE": lambda _: [
                f"SERIALNUMBER={self._serial},SWPACKAGE=6.1.0,STATUS=OK,CHASSISTYPE={self._model}"
            ],
        }

    def _enter(self, request: Command) -> Sequence[str]:
        """Define a circuit; its payload is `[group],1WAY|2WAY[,name]`."""
        ends = request.aid.split(",")
        if len(ends) != 2:
            raise Denied("IPMS", "Input, Parameter Missing")
        group, kind, name = [*request.block(1).split(","), "", ""][:3]
        if kind not in ("1WAY", "2WAY"):
            raise Denied("IDNV", "Input, Data Not Valid")
        name = name or (">" if kind == "1WAY" else "-").join(ends)
        source, destination = (self._number(end) for end in ends)
        pairs = {source: self._leaving(destination)}
        if kind == "2WAY":
            pairs[destination] = self._leaving(source)
        taken = self._switch.site.conflict == "refuse" and self._in_use() & {
            *pairs,
            *pairs.values(),
        }
        if name in self._remembered() or taken:
            raise Denied("IEAE", "Invalid Connection")
        self._circuits[name] = Circuit(name, group or "SYSTEM", kind, pairs)
        return ()

    def _activate(self, request: Command) -> Sequence[str]:
        circuit = self._named(request)
        in_the_way = [c for c in self._circuits.values() if c is not circuit and c.meets(circuit)]
        if in_the_way and self._switch.site.conflict == "ignore":
            del self._circuits[circuit.name]
            return ()
        for other in in_the_way:
            self._switch.disconnect(self._shown(other))
            del self._circuits[other.name]
        self._switch.connect(circuit.pairs)
        circuit.active = True
        return ()

    def _cancel(self, request: Command) -> Sequence[str]:
        circuit = self._named(request)
        shown = self._shown(circuit)
        self._switch.disconnect(shown)
        # A mirror that does not follow leaves the circuit in service, whatever was answered.
        circuit.active = bool(self._shown(circuit))
        return ()

    def _delete(self, request: Command) -> Sequence[str]:
        circuit = self._named(request)
        if circuit.active:
            raise Denied("SROF", "Connection is in service")
        del self._circuits[circuit.name]
        return ()

    def _delete_all(self, request: Command) -> Sequence[str]:
        self._switch.disconnect(self._switch.commanded)
        self._circuits.clear()
        return ()

    def _cross_connects(self, request: Command) -> Sequence[str]:
        """Return the rows of all circuits, or of those that the payload names."""
        wanted = {part for part in request.block(1).split(",") if part}
        circuits = list(self._remembered().values())
        if "ALL" not in wanted:
            circuits = [c for c in circuits if wanted & {c.name, c.group}]
            if not circuits:
                raise Denied("IENE", "Invalid Connection")
        troubles = self._switch.unsteady()
        return [row for circuit in circuits for row in self._rows(circuit, troubles)]

    def _rows(self, circuit: Circuit, troubles: Mapping[int, str]) -> list[str]:
        if not circuit.active:
            return [self._row(circuit, circuit.kind, circuit.pairs, "UMA/RDY/OK")]
        shown = self._shown(circuit)
        trouble = next((troubles[i] for i in shown if i in troubles), "")
        if shown == circuit.pairs:
            return [self._row(circuit, circuit.kind, shown, STATES[trouble])]
        return [self._row(circuit, "1WAY", {i: e}, STATES[trouble]) for i, e in shown.items()]

    def _row(self, circuit: Circuit, kind: str, pairs: dict[int, int], states: str) -> str:
        ingress, egress = next(iter(pairs.items()))
        source, destination = self._names[ingress - 1], self._names[self._entering(egress) - 1]
        admin, operational, optical = states.split("/")
        return (
            f"{circuit.name}:SRCPORT={source},DSTPORT={destination},GRPNAME={circuit.group},"
            f"CONNNAME={circuit.name},CONNTYPE={kind},AS={admin},OS={operational},OC={optical},"
            "PS=UPR,AL=CL"
        )

    def _port(self, number: int) -> str:
        enters, leaves = self._switch.power(number), self._switch.power(self._leaving(number))
        names = [
            circuit.name
            for circuit in self._remembered().values()
            if {number, self._leaving(number)} & {*circuit.pairs, *circuit.pairs.values()}
        ]
        connections = "".join(f",CONNNAME{n}={name}" for n, name in enumerate(names, 1))
        levels = f"INPWR={level(enters)},OUTPWR={level(leaves)}"
        return f"{self._names[number - 1]}:ALIAS=,{levels}{connections}"

    def _remembered(self) -> dict[str, Circuit]:
        """Return the circuits by name, less those in service that another client took down."""
        self._circuits = {
            name: circuit
            for name, circuit in self._circuits.items()
            if not circuit.active or self._shown(circuit)
        }
        return self._circuits

    def _shown(self, circuit: Circuit) -> dict[int, int]:
        """Return what the box inside shows of a circuit, right or wrong."""
        commanded = self._switch.commanded
        return {ingress: commanded[ingress] for ingress in circuit.pairs if ingress in commanded}

    def _in_use(self) -> set[int]:
        defined = {end for circuit in self._circuits.values() for end in circuit.ends}
        return defined | {p for pair in self._switch.commanded.items() for p in pair}

    def _named(self, request: Command) -> Circuit:
        """Return the circuit of a payload `name[,group]` or `,group,name`."""
        circuits = self._remembered()
        for part in request.block(1).split(","):
            if part in circuits:
                return circuits[part]
        raise Denied("IENE", "Invalid Connection")

    def _number(self, name: str) -> int:
        if name not in self._names:
            raise Denied("IIAC", "Invalid Access Identifier")
        return self._names.index(name) + 1

    def _leaving(self, number: int) -> int:
        return len(self._names) + number

    def _entering(self, egress: int) -> int:
        return egress - len(self._names)
