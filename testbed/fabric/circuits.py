"""Ports, circuits between them, and the cross-connects that make a circuit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True, order=True)
class FibrePair:
    """Two fibres that join two switches, one for each direction, as a circuit passes them.

    Each end is as that of a host port: light comes out of the fibres into the ingress `tx` of a
    switch, and goes from its egress `rx` into them. `near` is the end towards the circuit's port
    `a`, `far` that towards `b`.
    """

    name: str
    near: Fibres = field(compare=False)
    far: Fibres = field(compare=False)

    def __str__(self) -> str:
        return self.name

    @property
    def reversed(self) -> FibrePair:
        """Return the pair as it is passed the other way."""
        return FibrePair(self.name, self.far, self.near)

    @property
    def ends(self) -> tuple[SwitchPort, ...]:
        """Return the switch ports of both fibres."""
        return self.near.tx, self.near.rx, self.far.tx, self.far.rx


def wired_ends(
    wiring: Wiring, between: Iterable[FibrePair]
) -> list[tuple[HostPort | FibrePair, Fibres]]:
    """Return what ends at switches, host ports first, each with its two fibres there."""
    ends: list[tuple[HostPort | FibrePair, Fibres]] = [*wiring.items()]
    return ends + [(pair, end) for pair in between for end in (pair.near, pair.far)]


def fibre_ends(
    wiring: Wiring, hosts: Iterable[str], between: Iterable[FibrePair] = ()
) -> frozenset[SwitchPort]:
    """Return the switch ports at which fibres of these hosts end, and those between switches."""
    of = frozenset(hosts)
    own = (e for port, f in wiring.items() if port.host in of for e in (f.tx, f.rx))
    return frozenset(own).union(*(pair.ends for pair in between))


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
    """A light path in both directions between two host ports; `Circuit.between` orders the ends.

    Where they are on different switches, `via` are the fibres that it passes from `a` to `b`.
    """

    a: HostPort
    b: HostPort
    via: tuple[FibrePair, ...] = ()

    @classmethod
    def between(cls, one: HostPort, other: HostPort, via: Sequence[FibrePair] = ()) -> Circuit:
        """Return the circuit with its ends in canonical order; ValueError if both are one port.

        `via` leads from `one` to `other`.
        """
        if one == other:
            raise ValueError(f"a circuit from {one} to itself")
        if one > other:
            return cls(other, one, tuple(pair.reversed for pair in reversed(via)))
        return cls(one, other, tuple(via))

    @classmethod
    def parse(cls, one: str, other: str) -> Circuit:
        """Return the circuit between two ports given as text."""
        return cls.between(HostPort.parse(one), HostPort.parse(other))

    @property
    def ends(self) -> tuple[HostPort, HostPort]:
        """Return both ends."""
        return self.a, self.b

    @property
    def uses(self) -> tuple[HostPort | FibrePair, ...]:
        """Return what no other circuit can use: the ports at its ends, and the fibres between."""
        return self.a, self.b, *self.via

    @property
    def directions(self) -> tuple[tuple[HostPort, HostPort], tuple[HostPort, HostPort]]:
        """Return both directions of the circuit as pairs (source, sink)."""
        return (self.a, self.b), (self.b, self.a)

    @property
    def hosts(self) -> frozenset[str]:
        """Return the hosts of both ends."""
        return frozenset((self.a.host, self.b.host))

    def __str__(self) -> str:
        return "–".join(map(str, (self.a, *self.via, self.b)))


Matching = frozenset[Circuit]


def in_order(circuits: Iterable[Circuit]) -> tuple[Circuit, ...]:
    """Return circuits in the order of their ends, which takes less time than comparing them."""
    by_ends = {(c.a.host, c.a.port, c.b.host, c.b.port): c for c in circuits}
    return tuple(by_ends[ends] for ends in sorted(by_ends))


def matching(circuits: Iterable[Circuit]) -> Matching:
    """Return circuits as a matching; raise ValueError when a port or fibre is in more than one."""
    result = frozenset(circuits)
    uses = Counter(part for circuit in result for part in circuit.uses)
    crowded = sorted(str(part) for part, count in uses.items() if count > 1)
    if crowded:
        raise ValueError(f"{crowded[0]} is in more than one circuit")
    return result


def cross_connects(circuits: Iterable[Circuit], wiring: Wiring) -> frozenset[CrossConnect]:
    """Return the cross-connects that make the circuits: one per direction, or one for both.

    Two bidirectional ports take one; a circuit through several switches takes some in each. Raise
    ValueError for a port without fibres, for ends on different switches or on one side of a switch,
    and for a fibre that would need two cross-connects.
    """
    return frozenset(
        cross for circuit in circuits for way in crossings(circuit, wiring) for cross in way
    )


def crossings(
    circuit: Circuit, wiring: Wiring
) -> tuple[tuple[CrossConnect, ...], tuple[CrossConnect, ...]]:
    """Return the cross-connects of both directions of a circuit, in the order of the light.

    Raise ValueError as `cross_connects` does.
    """
    for port in circuit.ends:
        if port not in wiring:
            raise ValueError(f"{port} has no fibre to a switch")
    stops = [(str(circuit.a), wiring[circuit.a])]
    for pair in circuit.via:
        stops += [(pair.name, pair.near), (pair.name, pair.far)]
    stops.append((str(circuit.b), wiring[circuit.b]))
    back_stops = stops[::-1]
    there = tuple(_crossing(*both) for both in zip(stops[::2], stops[1::2], strict=True))
    back = tuple(_crossing(*both) for both in zip(back_stops[::2], back_stops[1::2], strict=True))
    return there, back


def crossing(source: HostPort, sink: HostPort, wiring: Wiring) -> CrossConnect:
    """Return the cross-connect that carries light from one host port to another on its switch.

    Raise ValueError as `cross_connects` does.
    """
    for port in (source, sink):
        if port not in wiring:
            raise ValueError(f"{port} has no fibre to a switch")
    return _crossing((str(source), wiring[source]), (str(sink), wiring[sink]))


def _crossing(source: tuple[str, Fibres], sink: tuple[str, Fibres]) -> CrossConnect:
    if reason := _why_apart(*source, *sink):
        raise ValueError(reason)
    (_, sends), (_, hears) = source, sink
    ends = (sends.tx.number, hears.rx.number)
    if sends.is_bidi or sends.side is Side.ANY:
        ends = (min(ends), max(ends))  # inputs are below outputs, and one side has no direction
    return CrossConnect(sends.tx.switch, *ends)


def can_join(one: HostPort, other: HostPort, wiring: Wiring) -> bool:
    """Tell whether the known fibres allow a circuit between two ports."""
    mine, theirs = (str(one), wiring[one]), (str(other), wiring[other])
    return not (_why_apart(*mine, *theirs) or _why_apart(*theirs, *mine))


def _why_apart(source: str, sends: Fibres, sink: str, hears: Fibres) -> str:
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
    """The host ports, or fibres to other switches, that a cross-connect joins.

    None where no fibre that is known leads.
    """

    source: HostPort | FibrePair | None
    sink: HostPort | FibrePair | None
    both_ways: bool = False
    """Whether light goes back from the sink to the source as well."""

    def __str__(self) -> str:
        if self.both_ways:
            return f"{self.source} and {self.sink}, both ways"
        return f"{self.source or 'unwired'} to {self.sink or 'unwired'}"


class HostEnds:
    """Maps cross-connects to what is at their ends, by the wiring and the fibres `between`."""

    def __init__(self, wiring: Wiring, between: Iterable[FibrePair] = ()) -> None:
        ends = wired_ends(wiring, between)
        self._sources = {fibres.tx: what for what, fibres in ends}
        self._sinks = {fibres.rx: what for what, fibres in ends}

    def of(self, cross: CrossConnect) -> Joined:
        """Return what a cross-connect joins; light can pass in either direction."""
        one = SwitchPort(cross.switch, cross.ingress)
        other = SwitchPort(cross.switch, cross.egress)
        there = self._sources.get(one), self._sinks.get(other)
        back = self._sources.get(other), self._sinks.get(one)
        if all(there) and all(back):
            return Joined(*there, both_ways=True)
        return Joined(*(back if any(back) and not any(there) else there))
