"""Ports, circuits between them, and the cross-connects that make a circuit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A fabric port of a host, as `h0.p1`."""

    host: str
    port: str

    def __str__(self) -> str:
        return f"{self.host}.{self.port}"

    @classmethod
    def parse(cls, text: str) -> HostPort:
        """Return the port that `text` names as `host.port`; raise ValueError otherwise."""
        host, dot, port = text.partition(".")
        if not (host and dot and port):
            raise ValueError(f"{text!r} is not a host port; write it as 'h0.p1'")
        return cls(host, port)


@dataclass(frozen=True, slots=True, order=True)
class SwitchPort:
    """A port of an optical circuit switch, as `ocs.17`."""

    switch: str
    number: int

    def __str__(self) -> str:
        return f"{self.switch}.{self.number}"

    @classmethod
    def parse(cls, text: str) -> SwitchPort:
        """Return the port that `text` names as `switch.number`; raise ValueError otherwise."""
        switch, dot, number = text.rpartition(".")
        if not (switch and dot and number.isdecimal()):
            raise ValueError(f"{text!r} is not a switch port; write it as 'ocs.17'")
        return cls(switch, int(number))


@dataclass(frozen=True, slots=True)
class Fibres:
    """The two fibres of a host port: `tx` goes into a switch ingress, `rx` comes from an egress.

    On a bidirectional port both name the same switch port.
    """

    tx: SwitchPort
    rx: SwitchPort


Wiring = Mapping[HostPort, Fibres]


@dataclass(frozen=True, slots=True, order=True)
class CrossConnect:
    """One direction of light inside one switch, from an ingress port to an egress port."""

    switch: str
    ingress: int
    egress: int

    def __str__(self) -> str:
        return f"{self.switch}.{self.ingress}→{self.egress}"


@dataclass(frozen=True, slots=True, order=True)
class Circuit:
    """Light both ways between two host ports; `Circuit.between` puts the ends in order."""

    a: HostPort
    b: HostPort

    @classmethod
    def between(cls, one: HostPort, other: HostPort) -> Circuit:
        """Return the circuit between two different host ports."""
        if one == other:
            raise ValueError(f"a circuit from {one} to itself")
        return cls(*sorted((one, other)))

    @classmethod
    def parse(cls, one: str, other: str) -> Circuit:
        """Return the circuit between two ports given as text."""
        return cls.between(HostPort.parse(one), HostPort.parse(other))

    @property
    def ends(self) -> tuple[HostPort, HostPort]:
        """Return both ends."""
        return self.a, self.b

    def __str__(self) -> str:
        return f"{self.a}–{self.b}"


Matching = frozenset[Circuit]


def matching(circuits: Iterable[Circuit]) -> Matching:
    """Return circuits as a matching; raise ValueError when a port has more than one."""
    result = frozenset(circuits)
    uses = Counter(end for circuit in result for end in circuit.ends)
    crowded = sorted(port for port, count in uses.items() if count > 1)
    if crowded:
        raise ValueError(f"{crowded[0]} is in more than one circuit")
    return result


def cross_connects(circuits: Iterable[Circuit], wiring: Wiring) -> frozenset[CrossConnect]:
    """Return the cross-connects that make the circuits: one per direction.

    Raise ValueError for a port without fibres, or for ends on different switches.
    """
    return frozenset(
        _direction(source, sink, wiring)
        for circuit in circuits
        for source, sink in (circuit.ends, circuit.ends[::-1])
    )


def _direction(source: HostPort, sink: HostPort, wiring: Wiring) -> CrossConnect:
    for port in (source, sink):
        if port not in wiring:
            raise ValueError(f"{port} has no fibre to a switch")
    tx, rx = wiring[source].tx, wiring[sink].rx
    if tx.switch != rx.switch:
        raise ValueError(
            f"{source} ends on {tx.switch} and {sink} on {rx.switch}: no path of light"
        )
    return CrossConnect(tx.switch, tx.number, rx.number)


def circuits_of(lit: Iterable[CrossConnect], wiring: Wiring) -> Matching:
    """Return the circuits that are lit in both directions."""
    present = frozenset(lit)
    sources = {fibres.tx: port for port, fibres in wiring.items()}
    sinks = {fibres.rx: port for port, fibres in wiring.items()}
    paths = {
        (sources[tx], sinks[rx])
        for cross in present
        if (tx := SwitchPort(cross.switch, cross.ingress)) in sources
        and (rx := SwitchPort(cross.switch, cross.egress)) in sinks
    }
    return frozenset(Circuit.between(a, b) for a, b in paths if a < b and (b, a) in paths)
