"""A switch moved by hand: the same checks as the door to the fabric, and no undo.

What a person connects stays connected; so there is no journal, but there are the lock, the list
of ports that the lab permits, the verification, and the roll-back of a change that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from testbed.bench.contracts import Identity, OpticalSwitch
from testbed.bench.crossbar import Crossbar
from testbed.bench.moves import Move, Moved, move_all
from testbed.bench.probe import Probe, spare_ports
from testbed.clock import Deadline
from testbed.errors import UsageError
from testbed.fabric.card import Card
from testbed.fabric.circuits import (
    Circuit,
    CrossConnect,
    HostPort,
    SwitchPort,
    Wiring,
    cross_connects,
)
from testbed.plugins import kind
from testbed.record.locks import InstrumentLock
from testbed.schema import Lab

_LIMIT = 10.0


@dataclass(frozen=True, slots=True)
class SwitchByHand:
    """An open switch of a lab."""

    lab: Lab
    name: str
    identity: Identity
    _switch: OpticalSwitch

    def rows(self) -> list[dict[str, Any]]:
        """Return every cross-connect, with the host ports that its fibres lead to."""
        state = self._switch.state(Deadline.after(_LIMIT))
        wiring = self.lab.wiring().items()
        tx = {f.tx: str(port) for port, f in wiring}
        rx = {f.rx: str(port) for port, f in wiring}
        return [
            {
                "ingress": i,
                "egress": e,
                "from": tx.get(SwitchPort(self.name, i), ""),
                "to": rx.get(SwitchPort(self.name, e), ""),
            }
            for i, e in sorted(state.items())
        ]

    def probe(self, ports: list[int], label: str, tell: Callable[[str], None]) -> Card:
        """Probe the switch with four ports, two ingress and two egress; with none, spare ones."""
        can = self._switch.capabilities
        if ports:
            ingress = tuple(port for port in ports if port in can.ingress)
            egress = tuple(port for port in ports if port in can.egress)
        else:
            ingress, egress = spare_ports(self.lab, self.name, can)
        driver = self.lab.switches[self.name].driver
        return Probe(self._switch, ingress, egress).run(driver, label, tell)

    def connect(self, cross: frozenset[CrossConnect]) -> Moved | None:
        """Add cross-connects and verify them; None when they are there already.

        Raise BusyError when one of their ports is in use.
        """
        return self._move(cross, add=True)

    def disconnect(self, cross: frozenset[CrossConnect]) -> Moved | None:
        """Remove cross-connects; None when none of them is there."""
        return self._move(cross, add=False)

    def _move(self, cross: frozenset[CrossConnect], *, add: bool) -> Moved | None:
        pairs = {c.ingress: c.egress for c in cross}
        spec = self.lab.switches[self.name]
        ports = frozenset(pairs) | frozenset(pairs.values())
        outside = sorted(ports - spec.usable)
        if outside:
            raise UsageError(
                f"port {outside[0]} is none of those that lab {self.lab.lab} lets be used",
                hint=f"see switches.{self.name}.ports and .protected in its file",
            )
        deadline = Deadline.after(_LIMIT)
        if self._switch.capabilities.positions:
            ports = spec.usable  # such a switch moves as a whole, and this one is held by us
        limits = self.lab.light_limits()[self.name]
        crossbar = Crossbar(self.name, self._switch, ports, self.lab.wiring(), limits)
        present = self._switch.state(deadline)
        crossbar.adopt({i: e for i, e in present.items() if pairs.get(i) == e}, deadline)
        move = Move(crossbar, *crossbar.plan(pairs if add else {}, deadline))
        return next(iter(move_all([move], deadline)), None)


@contextmanager
def switch_by_hand(lab: Lab, name: str, *, force: bool) -> Iterator[SwitchByHand]:
    """Open a switch of a lab; with `force` even while a run holds it."""
    spec = lab.switches[name]
    with ExitStack() as stack:
        if not force:
            stack.enter_context(InstrumentLock(name, spec.resource, "testbed switch"))
        make = kind("drivers", spec.driver).load()
        switch = make(name, spec.resource, spec.usable, spec.identity, spec.options, _no_tracer)
        stack.callback(switch.close)
        yield SwitchByHand(lab, name, switch.open(Deadline.after(_LIMIT)), switch)


def parse_ends(lab: Lab, name: str, ends: list[str]) -> frozenset[CrossConnect]:
    """Return what two words mean: two host ports (both directions), or an ingress and an egress.

    Raise UsageError with the forms there are.
    """
    try:
        one, other = ends
        if one.isdecimal() and other.isdecimal():
            return frozenset({CrossConnect(name, int(one), int(other))})
        return _between(lab.wiring(), HostPort.parse(one), HostPort.parse(other), name)
    except ValueError as error:
        raise UsageError(
            f"{' '.join(ends) or 'nothing'} names no circuit of {name}: {error}",
            hint="name two host ports (h0.p1 h1.p0), or an ingress and an egress (2 19)",
        ) from None


def _between(wiring: Wiring, one: HostPort, other: HostPort, name: str) -> frozenset[CrossConnect]:
    found = cross_connects([Circuit.between(one, other)], wiring)
    if any(cross.switch != name for cross in found):
        raise ValueError(f"its fibres end on {next(iter(found)).switch}")
    return found


def _no_tracer(direction: str, data: bytes) -> None:
    """Keep no transcript: nothing here belongs to a run."""
