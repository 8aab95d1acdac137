"""A switch moved by hand: the same checks as the door to the fabric.

What a person connects stays connected; but until it is verified the way back is in a journal, so
that `recover` finds it where this process was killed in the middle.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from testbed.bench.answered import Answered
from testbed.bench.contracts import Identity, OpticalSwitch
from testbed.bench.crossbar import Crossbar
from testbed.bench.ends import ports_of
from testbed.bench.moves import Move, Moved, move_all
from testbed.bench.needs import box_of, is_exclusive, part_of
from testbed.bench.opening import opening_seconds
from testbed.bench.probe import Probe, spare_ports
from testbed.bench.promise import CircuitsPromise
from testbed.clock import Deadline, now
from testbed.errors import TestbedError, UnsafeError
from testbed.fabric.card import Card
from testbed.fabric.change import Change
from testbed.fabric.circuits import (
    CrossConnect,
    SwitchPort,
)
from testbed.fabric.device import State
from testbed.fabric.reading import NOT_MEASURED, Reading
from testbed.plugins import kind
from testbed.record.journal import Journal
from testbed.record.lease_rules import Resource
from testbed.record.leases import Leases
from testbed.record.locks import InstrumentLock
from testbed.record.rundir import RunDirectory
from testbed.schema import Lab

_LIMIT = 10.0


@dataclass(frozen=True, slots=True)
class Row:
    """One cross-connect as a person wants to see it."""

    ingress: int
    egress: int
    source: str
    """The host port whose light enters, empty when the lab file knows none."""
    sink: str
    """The host port that the light reaches, empty when the lab file knows none."""
    state: str
    """The switch's own word on it, empty when it has none."""
    light_in: Reading
    light_out: Reading
    """The light that enters, and that leaves."""

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain values: of light what it is, and its level where it has one."""
        row = {"from": self.source, "to": self.sink, "ingress": self.ingress}
        row |= {"egress": self.egress, "state": self.state}
        for way, reading in (("in", self.light_in), ("out", self.light_out)):
            row |= {f"light_{way}": str(reading.light), f"power_{way}": reading.dbm}
        return row

    @property
    def ends(self) -> str:
        """Return the host ports in words."""
        return f"{self.source or 'unwired'} to {self.sink or 'unwired'}"

    def __str__(self) -> str:
        return f"{self.ingress}→{self.egress} ({self.ends})"


@dataclass(frozen=True, slots=True)
class SwitchByHand:
    """An open switch of a lab."""

    lab: Lab
    name: str
    identity: Identity
    _switch: OpticalSwitch
    _leases: Leases | None
    """None when a person takes the ports whoever has them."""

    def rows(self) -> list[Row]:
        """Return every cross-connect: where its fibres lead, whether it is in order, its light."""
        deadline = Deadline.after(_LIMIT)
        can, state = self._switch.capabilities, self._switch.state(deadline)
        unsteady = self._switch.unsteady(deadline) if can.steadiness else {}
        ports = {port for pair in state.items() for port in pair} & can.monitored
        seen = self._switch.power(sorted(ports), deadline) if ports else {}
        return [
            Row(
                ingress=i,
                egress=e,
                source=self.source(i),
                sink=self.sink(e),
                state=unsteady.get(i, "steady" if can.steadiness else ""),
                light_in=seen.get(i, NOT_MEASURED),
                light_out=seen.get(e, NOT_MEASURED),
            )
            for i, e in sorted(state.items())
        ]

    def source(self, ingress: int) -> str:
        """Return the host port whose light enters at a port, empty when the lab knows none."""
        end, wiring = SwitchPort(self.name, ingress), self.lab.wiring()
        return next((str(port) for port, fibres in wiring.items() if fibres.tx == end), "")

    def sink(self, egress: int) -> str:
        """Return the host port that light leaving at a port reaches, empty when none is known."""
        end, wiring = SwitchPort(self.name, egress), self.lab.wiring()
        return next((str(port) for port, fibres in wiring.items() if fibres.rx == end), "")

    def probe(
        self, ports: list[int], label: str, run: RunDirectory, tell: Callable[[str], None]
    ) -> Card:
        """Probe the switch with four ports, two ingress and two egress; with none, spare ones."""
        can = self._switch.capabilities
        if ports:
            ingress = tuple(port for port in ports if port in can.ingress)
            egress = tuple(port for port in ports if port in can.egress)
        else:
            state = self._switch.state(Deadline.after(_LIMIT))
            ingress, egress = spare_ports(self.lab, self.name, can, state)
        driver = self.lab.switches[self.name].driver
        with self._held(frozenset({*ingress, *egress}), run) as (journal, may_move):
            probe = Probe(self.name, self._switch, ingress, egress, journal, may_move)
            return probe.run(driver, label, tell)

    def connect(self, cross: frozenset[CrossConnect], run: RunDirectory) -> Moved | None:
        """Add cross-connects and verify them; None when they are there already.

        The way back is in the journal of `run` meanwhile. Raise BusyError when one of their ports
        is in use, UnsafeError when the change failed and could not be taken back.
        """
        return self._move(cross, run, add=True)

    def disconnect(self, cross: frozenset[CrossConnect], run: RunDirectory) -> Moved | None:
        """Remove cross-connects as `connect` adds them; None when none of them is there."""
        return self._move(cross, run, add=False)

    def planned(self, cross: frozenset[CrossConnect]) -> Change:
        """Return what `apply` would do, having changed nothing."""
        return self._as_listed(cross, Deadline.after(_LIMIT)).change

    def apply(self, cross: frozenset[CrossConnect], run: RunDirectory) -> Moved | None:
        """Make the cross-connects listed those of the ports that they name; None when they are.

        What joins two named ports and is not listed is taken down. Raise BusyError when a named
        port is joined to one that is not named, and else what `connect` raises.
        """
        with self._held(ports_of(cross), run) as held:
            deadline = Deadline.after(_LIMIT)
            return self._made(self._as_listed(cross, deadline), *held, deadline)

    def _as_listed(self, cross: frozenset[CrossConnect], deadline: Deadline) -> Move:
        pairs = {c.ingress: c.egress for c in cross}
        named = {*pairs, *pairs.values()}
        present = self._switch.state(deadline)
        ours = {i: e for i, e in present.items() if {i, e} <= named}
        return self._prepared(pairs, ours, pairs, deadline)

    def _move(
        self, cross: frozenset[CrossConnect], run: RunDirectory, *, add: bool
    ) -> Moved | None:
        pairs = {c.ingress: c.egress for c in cross}
        with self._held(ports_of(cross), run) as held:
            deadline = Deadline.after(_LIMIT)
            present = self._switch.state(deadline)
            ours = {i: e for i, e in present.items() if pairs.get(i) == e}
            move = self._prepared(pairs, ours, pairs if add else {}, deadline)
            return self._made(move, *held, deadline)

    def _made(
        self, move: Move, journal: Journal, may_move: Callable[[], None], deadline: Deadline
    ) -> Moved | None:
        """Make a change; where nobody waited for its light, give the mirrors their time."""
        if not move.change:
            return None
        move.crossbar.may_move = may_move
        promise = CircuitsPromise(journal)
        promise.cover([move])
        try:
            moved = move_all([move], deadline)[0]
        except UnsafeError:
            raise
        except TestbedError:  # all was taken back; after any other error nobody knows
            promise.settle()
            raise
        promise.settle()
        can = self._switch.capabilities
        if moved.verified.lit is None and can.monitored & {*move.change.adds.values()}:
            time.sleep(max(0.0, moved.applied.read_back + can.settle_max - now()))
        return moved

    @contextmanager
    def _held(
        self, ports: frozenset[int], run: RunDirectory
    ) -> Iterator[tuple[Journal, Callable[[], None]]]:
        """Have ports to ourselves while they are moved, and a journal for what is promised of them.

        What comes with the journal raises BusyError once they were taken from us. Raise BusyError
        with who has them. They stay leased where something is left changed.
        """
        with closing(Journal(run.journal)) as journal:
            if self._leases is None:
                yield journal, _whoever_has_them
                return
            wanted = frozenset[Resource]().union(
                *(part_of(self.lab, self.name, str(port)) for port in ports)
            )
            answered = Answered(self.lab)
            answered.instrument(self.name, self.identity)
            wanted |= answered.resources(wanted)
            lease = self._leases.take(wanted, "testbed switch", run)
            boxes = {resource.box for resource in wanted}

            def may_move() -> None:
                for box in boxes:
                    lease.check(box, ())

            try:
                yield journal, may_move
            finally:
                lease.end(run.journal)

    def _prepared(self, named: State, ours: State, wanted: State, deadline: Deadline) -> Move:
        """Plan the move of the named ports from what is ours there to what is wanted."""
        ports = frozenset(named) | frozenset(named.values())
        if self._switch.capabilities.positions:
            ports = self.lab.switches[
                self.name
            ].usable  # such a switch moves as a whole, and this one is held by us
        limits = self.lab.light_limits()[self.name]
        crossbar = Crossbar(self.name, self._switch, ports, self.lab.wiring(), limits)
        crossbar.adopt(ours, deadline)
        return Move(crossbar, *crossbar.plan(wanted, deadline))


@contextmanager
def switch_by_hand(lab: Lab, name: str, leases: Leases, *, force: bool) -> Iterator[SwitchByHand]:
    """Open a switch of a lab; with `force` move also what others have leased."""
    spec = lab.switches[name]
    with ExitStack() as stack:
        if is_exclusive(lab, name) and not force:
            stack.enter_context(InstrumentLock(name, box_of(lab, name), "testbed switch"))
        make = kind("drivers", spec.driver).load()
        switch = make(name, spec.resource, spec.usable, spec.identity, spec.options, _no_tracer)
        stack.callback(switch.close)
        identity = switch.open(Deadline.after(opening_seconds(lab, [name], _LIMIT)))
        yield SwitchByHand(lab, name, identity, switch, None if force else leases)


def _whoever_has_them() -> None:
    """Permit a person who forces it to move what others have leased."""


def _no_tracer(direction: str, data: bytes) -> None:
    """Keep no transcript: nothing here belongs to a run."""
