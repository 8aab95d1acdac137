"""A switch twin on a wire, its light, a driver for it, and a driver of another client."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

from testbed.bench.contracts import Applied, OpticalSwitch, Tracer
from testbed.bench.sites import SwitchSite
from testbed.clock import Deadline
from testbed.contract.family import WIRES, Family
from testbed.contract.places import PLACES, Place, Wire, certificate
from testbed.fabric.change import Change
from testbed.fabric.device import Capabilities, State
from testbed.plugins import kind
from testbed.twin.scheduler import WallScheduler

SETTLE = 0.003
SERIAL = "S1"


def soon() -> Deadline:
    """Return a deadline that only a hang misses."""
    return Deadline.after(5)


def reach(switch: OpticalSwitch, wanted: State, deadline: Deadline | None = None) -> Applied:
    """Take a switch to a state, whatever is there now; return what it applied."""
    return switch.apply(change(switch.state(soon()), wanted), deadline or soon())


def change(present: State, wanted: State) -> Change:
    """Return what takes a switch from one state to another."""
    gone = {i: e for i, e in present.items() if wanted.get(i) != e}
    new = {i: e for i, e in wanted.items() if present.get(i) != e}
    return Change(gone, new)


class States:
    """States that a switch can be in, chosen from what it says that it can do."""

    def __init__(self, can: Capabilities) -> None:
        self.one: State
        self.other: State
        self.all: State
        self.rotated: State
        ingress, egress = sorted(can.ingress), sorted(can.egress)
        if can.positions:
            self.one, self.other = can.positions[0], can.positions[1]
            self.all, self.rotated = can.positions[-1], can.positions[-2]
        elif len(ingress) == 1 or len(egress) == 1:
            paths = [{i: e} for i in ingress for e in egress]
            self.one, self.other = paths[:2]
            self.all, self.rotated = paths[-1], paths[-2]
        else:
            self.one, self.other = {ingress[0]: egress[0]}, {ingress[0]: egress[1]}
            self.all = dict(zip(ingress, egress, strict=False))
            used = list(self.all.values())
            self.rotated = dict(zip(self.all, used[1:] + used[:1], strict=True))


class Rig:
    """One family's twin behind one wire. `settle` seconds pass before a new circuit is lit."""

    def __init__(
        self,
        family: Family,
        wire: str,
        directory: Path,
        settle: float = SETTLE,
        *,
        both_ways: bool = False,
    ) -> None:
        self.family = family
        self.both_ways = both_ways
        self.settle = settle
        self.scheduler = WallScheduler()
        self.lit: State = {}
        self.sent: list[bytes] = []
        self._changed = threading.Condition()
        self._drivers: list[OpticalSwitch] = []
        self._directory = directory
        self._wire_name = wire
        self._at_order: tuple[str, dict[str, Any]] | None = None
        self._reads: set[bytes] | None = None
        self.far_end = self.build(SERIAL)
        self.place = self._new_place()
        self._wires: list[Wire] = [self.place.serve(self.far_end)]

    # --- the box ----------------------------------------------------------------------------

    def build(self, serial: str) -> Any:
        """Return a twin with a serial number; light of another than the first is not seen."""
        kind_ = kind("far_ends", kind("drivers", self.family.driver).far_end)
        inputs, last = self.family.inputs, self.family.inputs + self.family.outputs
        ingress = frozenset(range(1, inputs + 1))
        site = SwitchSite(
            ingress,
            frozenset(range(inputs + 1, last + 1)) or ingress,
            serial,
            self.settle,
            1,
            self.scheduler,
            self._hear if serial == SERIAL else lambda lit: None,
            both_ways=self.both_ways,
        )
        return kind_.load()(site, self._options(""))

    def _hear(self, lit: State) -> None:
        with self._changed:
            self.lit = lit
            self._changed.notify_all()

    def wait_for_light(self, wanted: State) -> None:
        """Return once exactly these circuits carry light."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.lit == wanted, 5), self.lit

    def wait(self, seconds: float) -> None:
        """Let time pass on the clock of the box: what was due until then has happened."""
        passed = threading.Event()
        self.scheduler.call_at(self.scheduler.now() + seconds, passed.set)
        assert passed.wait(5)

    def settled_light(self) -> State:
        """Return what carries light once nothing moves any more."""
        self.wait(3 * self.settle)
        return self.lit

    # --- its line ---------------------------------------------------------------------------

    def _new_place(self) -> Place:
        place, transport = WIRES[self._wire_name]
        made: Place = PLACES[place](self._directory, transport)
        return made

    @property
    def is_serial(self) -> bool:
        """Tell whether the wire cannot be hung up from the far side."""
        return WIRES[self._wire_name][0] == "pty"

    def cut(self, far_end: Any = None) -> None:
        """Break the line; afterwards the switch, or another one, answers there again."""
        self._wires[0].close()
        self._wires[0] = self.place.serve(far_end or self.far_end)

    def unplug(self) -> None:
        """Break the line for good."""
        self._wires[0].close()

    # --- drivers ----------------------------------------------------------------------------

    def driver(self) -> OpticalSwitch:
        """Return a driver at the far end's place, opened."""
        return self._driver(self.place, self._trace)

    def second_driver(self) -> OpticalSwitch:
        """Return the driver of another client, on a line of its own to the same box."""
        place = self._new_place()
        self._wires.append(place.serve(self.far_end))
        return self._driver(place, lambda way, data: None)

    def _driver(self, place: Place, tracer: Tracer) -> OpticalSwitch:
        family = self.family
        ports = frozenset(range(1, family.inputs + family.outputs + 1))
        options = self._options(WIRES[self._wire_name][1])
        make = kind("drivers", family.driver).load()
        driver: OpticalSwitch = make("ocs", place.resource, ports, family.serial, options, tracer)
        self._drivers.append(driver)
        driver.open(soon())
        if family.blind:
            driver.presume({})
        return driver

    def _options(self, transport: str) -> Any:
        options = dict(self.family.options)
        if transport:
            options["transport"] = transport
        if self._wire_name == "https":
            options["ca_file"] = str(certificate()[0])
        return kind("drivers", self.family.driver).options(**options)

    # --- what was sent ----------------------------------------------------------------------

    def learn_orders(self, switch: OpticalSwitch) -> None:
        """Learn what is sent to ask; whatever else is sent from now on changes something.

        What greets a fresh line, as a login, changes nothing either.
        """
        self._reads = None
        self.sent.clear()
        switch.close()
        switch.identify(soon())
        switch.state(soon())
        switch.unsteady(soon())
        self._reads = {_shape(data) for data in self.sent}
        self.sent.clear()

    @property
    def orders(self) -> list[bytes]:
        """Return what was sent since `learn_orders` that changes something."""
        return [data for data in self.sent if _shape(data) not in (self._reads or ())]

    def at_order(self, name: str, **scope: Any) -> None:
        """Arm a fault when the driver is about to send its next order."""
        self._at_order = (name, scope)

    def disarm(self) -> None:
        """End every fault, and the wait for an order to arm one."""
        self._at_order = None
        self.far_end.clear()

    def _trace(self, way: str, data: bytes) -> None:
        if way != "send":
            return
        self.sent.append(data)
        if self._at_order and self._reads is not None and _shape(data) not in self._reads:
            (name, scope), self._at_order = self._at_order, None
            self.far_end.fault(name, **scope)

    def close(self) -> None:
        """Close every driver, every wire and the box."""
        for driver in self._drivers:
            driver.close()
        for wire in self._wires:
            wire.close()
        self.scheduler.close()


def _shape(message: bytes) -> bytes:
    """Return a message without its numbers: of two lists of ports of any length, say, one."""
    return re.sub(rb"#(,#)*", b"#", re.sub(rb"\d+", b"#", message))
