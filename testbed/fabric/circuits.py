"""Ports, circuits between them, and the cross-connects that make a circuit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


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


class Side(StrEnum):
    """The side of a switch that a port is on; a cross-connect joins an input and an output."""

    INPUT = "input"
    OUTPUT = "output"
    ANY = "any"
    """The switch has one side only: any two of its ports can be joined."""


@dataclass(frozen=True, slots=True)
class Fibres:
    """The two fibres of a host port: `tx` goes into a switch ingress, `rx` comes from an egress.

    On a bidirectional port both name the same switch port.
    """

    tx: SwitchPort
    rx: SwitchPort
    side: Side | None = None
    """Of a bidirectional port, and of any port on a switch with one side; None: not known."""

    @property
    def is_bidi(self) -> bool:
        """Tell whether the port has one fibre for both directions."""
        return self.tx == self.rx


Wiring = Mapping[HostPort, Fibres]


def fibre_ends(wiring: Wiring, hosts: Iterable[str]) -> frozenset[SwitchPort]:
    """Return the switch ports at which fibres of these hosts end."""
    of = frozenset(hosts)
    return frozenset(e for port, f in wiring.items() if port.host in of for e in (f.tx, f.rx))


@dataclass(frozen=True, slots=True, order=True)
class CrossConnect:
    """A path of light inside one switch, from an ingress port to an egress port.

    Where both ends are bidirectional it carries light both ways. On a switch with one side the
    ingress is the lower port, whichever way the light goes.
    """

    switch: str
    ingress: int
    egress: int

    def __str__(self) -> str:
        return f"{self.switch}.{self.ingress}→{self.egress}"


@dataclass(frozen=True, slots=True, order=True)
class Circuit:
    """A light path in both directions between two host ports; `Circuit.between` orders the ends."""

    a: HostPort
    b: HostPort

    @classmethod
    def between(cls, one: HostPort, other: HostPort) -> Circuit:
        """Return the circuit with its ends in canonical order; ValueError if both are one port."""
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

    @property
    def directions(self) -> tuple[tuple[HostPort, HostPort], tuple[HostPort, HostPort]]:
        """Return both directions of the circuit as pairs (source, sink)."""
        return (self.a, self.b), (self.b, self.a)

    @property
    def hosts(self) -> frozenset[str]:
        """Return the hosts of both ends."""
        return frozenset((self.a.host, self.b.host))

    def __str__(self) -> str:
        return f"{self.a}–{self.b}"


Matching = frozenset[Circuit]


def in_order(circuits: Iterable[Circuit]) -> tuple[Circuit, ...]:
    """Return circuits in the order of their ends, which takes less time than comparing them."""
    by_ends = {(c.a.host, c.a.port, c.b.host, c.b.port): c for c in circuits}
    return tuple(by_ends[ends] for ends in sorted(by_ends))


def matching(circuits: Iterable[Circuit]) -> Matching:
    """Return circuits as a matching; raise ValueError when a port is in more than one."""
    result = frozenset(circuits)
    uses = Counter(end for circuit in result for end in circuit.ends)
    crowded = sorted(port for port, count in uses.items() if count > 1)
    if crowded:
        raise ValueError(f"{crowded[0]} is in more than one circuit")
    return result


def cross_connects(circuits: Iterable[Circuit], wiring: Wiring) -> frozenset[CrossConnect]:
    """Return the cross-connects that make the circuits: one per direction, or one for both.

    Two bidirectional ports take one. Raise ValueError for a port without fibres, for ends on
    different switches or on one side of a switch, and for a fibre that would need two
    cross-connects.
    """
    return frozenset(
        crossing(source, sink, wiring)
        for circuit in circuits
        for source, sink in circuit.directions
    )


def crossing(source: HostPort, sink: HostPort, wiring: Wiring) -> CrossConnect:
    """Return the cross-connect that carries light from one host port to another.

    Raise ValueError as `cross_connects` does.
    """
    for port in (source, sink):
        if port not in wiring:
            raise ValueError(f"{port} has no fibre to a switch")
    sends, hears = wiring[source], wiring[sink]
    if reason := _why_apart(source, sends, sink, hears):
        raise ValueError(reason)
    ends = (sends.tx.number, hears.rx.number)
    if sends.is_bidi or sends.side is Side.ANY:
        ends = (min(ends), max(ends))  # inputs are below outputs, and one side has no direction
    return CrossConnect(sends.tx.switch, *ends)


def can_join(one: HostPort, other: HostPort, wiring: Wiring) -> bool:
    """Tell whether the known fibres allow a circuit between two ports."""
    mine, theirs = wiring[one], wiring[other]
    return not (_why_apart(one, mine, other, theirs) or _why_apart(other, theirs, one, mine))


def _why_apart(source: HostPort, sends: Fibres, sink: HostPort, hears: Fibres) -> str:
    """Return why no light can go from a port to another; an empty string where it can."""
    tx, rx = sends.tx, hears.rx
    if tx.switch != rx.switch:
        return f"{source} ends on {tx.switch} and {sink} on {rx.switch}: no path of light"
    if sends.is_bidi != hears.is_bidi:
        one, two = (source, sink) if sends.is_bidi else (sink, source)
        return f"{one} has one fibre for both directions and {two} has two: no circuit joins them"
    if sends.is_bidi and sends.side == hears.side and sends.side in (Side.INPUT, Side.OUTPUT):
        one, other = sorted((source, sink))
        return f"{one} and {other} are both on the {sends.side} side of {tx.switch}"
    return ""


@dataclass(frozen=True, slots=True)
class Joined:
    """The host ports that a cross-connect joins; None where no fibre of the wiring leads."""

    source: HostPort | None
    sink: HostPort | None
    both_ways: bool = False
    """Whether light goes back from the sink to the source as well."""

    def __str__(self) -> str:
        if self.both_ways:
            return f"{self.source} and {self.sink}, both ways"
        return f"{self.source or 'unwired'} to {self.sink or 'unwired'}"


class HostEnds:
    """Maps cross-connects to the host ports at their ends, by the wiring."""

    def __init__(self, wiring: Wiring) -> None:
        self._sources = {fibres.tx: port for port, fibres in wiring.items()}
        self._sinks = {fibres.rx: port for port, fibres in wiring.items()}

    def of(self, cross: CrossConnect) -> Joined:
        """Return the host ports that a cross-connect joins; light can pass in either direction."""
        one = SwitchPort(cross.switch, cross.ingress)
        other = SwitchPort(cross.switch, cross.egress)
        there = self._sources.get(one), self._sinks.get(other)
        back = self._sources.get(other), self._sinks.get(one)
        if all(there) and all(back):
            return Joined(*there, both_ways=True)
        return Joined(*(back if any(back) and not any(there) else there))
