"""A switch moved by hand: the same checks as the door to the fabric.

What a person connects stays connected; but until it is verified the way back is in a journal, so
that `recover` finds it where this process was killed in the middle.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial

from testbed.bench.characterisation import options_of
from testbed.bench.circuit_undo import CircuitUndo
from testbed.bench.conformance_probe import Probe, probed_sides, spare_ports
from testbed.bench.contracts import Identity, OpticalSwitch
from testbed.bench.cross_connect_rows import CrossConnectRow, contradiction, read_rows
from testbed.bench.crossbar import Crossbar
from testbed.bench.endpoints import ports_of
from testbed.bench.instrument_factory import opening_seconds
from testbed.bench.lease_resources import box_of, is_exclusive, part_of, ports_among
from testbed.bench.multi_switch_change import (
    ForeignCircuitsLost,
    PlannedChange,
    VerifiedChange,
    change_all,
    take_back_verified,
)
from testbed.bench.reported_identities import ReportedIdentities
from testbed.clock import Deadline, now
from testbed.errors import InstrumentError, NotKnown, TestbedError, UnsafeError
from testbed.fabric.card import Card
from testbed.fabric.change import Change
from testbed.fabric.circuits import CrossConnect, HostEnds
from testbed.fabric.device import State
from testbed.plugins import kind
from testbed.record.journal import Journal
from testbed.record.lease import Lease
from testbed.record.lease_rules import Resource
from testbed.record.leases import Leases
from testbed.record.locks import InstrumentLock
from testbed.record.rundir import RunDirectory
from testbed.record.transcript import DeferredTranscript
from testbed.schema import Lab

_LIMIT = 10.0
_LOOKS = 3
"""Times that a switch is looked at which changes meanwhile."""


def _nobody(text: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class ManualChange:
    """What came of a change by hand."""

    moved: VerifiedChange | None
    """None when there was nothing to change."""
    rows: list[CrossConnectRow]
    """What the switch showed last, which is as it was wanted."""


def _unchecked() -> None:
    """Permit a person who forces it to move what others have leased."""


@dataclass(frozen=True, slots=True)
class LeasedPorts:
    """Ports that are moved by hand, as long as they are leased to us."""

    journal: Journal
    may_move: Callable[[], None] = _unchecked
    """Raises BusyError once they were taken from us."""
    leased_elsewhere: Callable[[frozenset[int]], frozenset[int]] = lambda ports: frozenset()
    """Returns the ports that somebody else has leased, and so may move as he likes."""

    def permit(self, crossbar: Crossbar) -> None:
        """Let a change ask for this while it is made."""
        crossbar.permit(self.may_move)
        crossbar.foreign.leased_elsewhere = self.leased_elsewhere


@dataclass(frozen=True, slots=True)
class ManualSwitch:
    """An open switch of a lab."""

    lab: Lab
    name: str
    identity: Identity
    _switch: OpticalSwitch
    _leases: Leases | None
    """None when a person takes the ports whoever has them."""
    _transcript: DeferredTranscript
    tell: Callable[[str], None] = _nobody
    """Hears what takes long."""

    def rows(self) -> list[CrossConnectRow]:
        """Return every cross-connect: where its fibres lead, whether it is in order, its light."""
        return read_rows(self.lab, self.name, self._switch, Deadline.after(_LIMIT))

    def ends(self, ingress: int, egress: int) -> str:
        """Return in words which host ports a cross-connect joins."""
        return str(HostEnds(self.lab.wiring()).of(CrossConnect(self.name, ingress, egress)))

    def probe(
        self, ports: list[int], label: str, run: RunDirectory, tell: Callable[[str], None]
    ) -> Card:
        """Probe the switch with four ports, two ingress and two egress; with none, spare ones."""
        can = self._switch.capabilities
        if ports:
            ingress, egress = probed_sides(ports, can)
        else:
            state = self._switch.state(Deadline.after(_LIMIT))
            ingress, egress = spare_ports(self.lab, self.name, can, state)
        driver = self.lab.switches[self.name].driver
        with self._held(frozenset({*ingress, *egress}), run) as held:
            within = held.journal, held.may_move
            probe = Probe(self.name, self._switch, ingress, egress, *within)
            return probe.run(driver, label, tell)

    def connect(self, cross: frozenset[CrossConnect], run: RunDirectory) -> ManualChange:
        """Add cross-connects and verify them; nothing moves when they are there already.

        The way back is in the journal of `run` meanwhile. Raise BusyError when one of their ports
        is in use, UnsafeError when the change failed and is not known to be taken back, or moved
        circuits of others.
        """
        return self._move(cross, run, add=True)

    def disconnect(self, cross: frozenset[CrossConnect], run: RunDirectory) -> ManualChange:
        """Remove cross-connects as `connect` adds them; those that are not there are gone."""
        return self._move(cross, run, add=False)

    def planned(self, cross: frozenset[CrossConnect]) -> Change:
        """Return what `apply` would do, having changed nothing."""
        return self._as_listed(cross, Deadline.after(_LIMIT)).change

    def apply(self, cross: frozenset[CrossConnect], run: RunDirectory) -> ManualChange:
        """Make the cross-connects listed those of the ports that they name.

        What joins two named ports and is not listed is taken down. Raise BusyError when a named
        port is joined to one that is not named, and else what `connect` raises.
        """
        with self._held(ports_of(cross), run) as held:
            deadline = Deadline.after(_LIMIT)
            move = self._as_listed(cross, deadline)
            held.permit(move.crossbar)
            return self._made(move, _pairs(cross), held.journal, deadline)

    def _as_listed(self, cross: frozenset[CrossConnect], deadline: Deadline) -> PlannedChange:
        pairs = _pairs(cross)
        named = {*pairs, *pairs.values()}
        try:
            present = self._switch.state(deadline)
        except NotKnown:  # a list is all that such a switch is to hold
            self._switch.presume({})
            present = {}
        ours = {i: e for i, e in present.items() if {i, e} <= named}
        return self._prepared(pairs, ours, pairs, deadline)

    def _move(
        self, cross: frozenset[CrossConnect], run: RunDirectory, *, add: bool
    ) -> ManualChange:
        pairs = _pairs(cross)
        wanted = pairs if add else {}
        with self._held(ports_of(cross), run) as held:
            deadline = Deadline.after(_LIMIT)
            present = self._switch.state(deadline)
            ours = {i: e for i, e in present.items() if pairs.get(i) == e}
            move = self._prepared(pairs, ours, wanted, deadline)
            held.permit(move.crossbar)
            absent = {} if add else pairs
            return self._made(move, wanted, held.journal, deadline, absent)

    def _made(
        self,
        move: PlannedChange,
        wanted: State,
        journal: Journal,
        deadline: Deadline,
        absent: State = {},  # noqa: B006 - never written to
    ) -> ManualChange:
        """Make a change, give its mirrors their time, and look a last time.

        What that look contradicts was not made: it is taken back as any other that failed.
        """
        gone = {**move.change.removes, **absent}
        if not move.change:
            rows = self._last_rows()
            if problem := contradiction(rows, wanted, gone):
                raise InstrumentError(
                    self.name,
                    f"nothing was changed, as it showed all that was wanted; now {problem}",
                )
            return ManualChange(None, rows)
        promise = CircuitUndo(journal)
        promise.cover([move])
        try:
            moved = change_all([move], deadline)[0]
            rows = self._settled(move, moved)
            if problem := contradiction(rows, wanted, gone):
                take_back_verified(
                    move, InstrumentError(self.name, f"it was verified, and now {problem}")
                )
        except ForeignCircuitsLost:  # all of ours was taken back
            promise.settle()
            raise
        except UnsafeError:
            raise
        except TestbedError:  # all was taken back; after any other error nobody knows
            promise.settle()
            raise
        promise.settle()
        if words := move.crossbar.others_gone():
            raise ForeignCircuitsLost(f"{self.name}: {move.change} is done, but {words}")
        return ManualChange(moved, rows)

    def _settled(self, move: PlannedChange, moved: VerifiedChange) -> list[CrossConnectRow]:
        """Return what is shown once light that nobody waited for has had its time."""
        can = self._switch.capabilities
        if moved.verified.lit is None and can.monitored & {*move.change.adds.values()}:
            time.sleep(max(0.0, moved.applied.read_back + can.settle_max + can.averaging - now()))
        try:
            return self._last_rows()
        except InstrumentError as error:
            why = str(error.args[0]).removeprefix(f"{self.name}: ")
            said = f"{move.change} is done and verified, but a last look at it failed: {why}"
            raise type(error)(self.name, said, reply=error.reply, hint=error.hint) from error

    def _last_rows(self) -> list[CrossConnectRow]:
        """Return what is shown, where it was so from the first to the last answer about it."""
        for _ in range(_LOOKS):
            rows = self.rows()
            shown = {row.ingress: row.egress for row in rows}
            if all(self._switch.state(Deadline.after(_LIMIT)) == shown for _ in range(2)):
                return rows
        raise InstrumentError(self.name, "what it shows changes while it is looked at")

    def _leased_to_others(self, lease: Lease, ports: frozenset[int]) -> frozenset[int]:
        known = self._answered.keys_of_instrument(self.name)
        return ports_among(self.lab, self.name, ports, lease.of_others(), known)

    @property
    def _answered(self) -> ReportedIdentities:
        """Return what the switch said that it is."""
        answered = ReportedIdentities(self.lab)
        answered.instrument(self.name, self.identity)
        return answered

    @contextmanager
    def _held(self, ports: frozenset[int], run: RunDirectory) -> Iterator[LeasedPorts]:
        """Have ports to ourselves while they are moved, and a journal for what is promised of them.

        Raise BusyError with who has them. They stay leased where something is left changed.
        """
        self._transcript.write_to(run.wire(self.name), self.name)
        with closing(Journal(run.journal)) as journal:
            if self._leases is None:
                yield LeasedPorts(journal)
                return
            wanted = frozenset[Resource]().union(
                *(part_of(self.lab, self.name, str(port)) for port in ports)
            )
            wanted |= self._answered.resources(wanted)
            lease = self._leases.take(wanted, "testbed switch", run)
            boxes = {resource.box for resource in wanted}

            def may_move() -> None:
                for box in boxes:
                    lease.check(box, ())

            try:
                theirs = partial(self._leased_to_others, lease)
                yield LeasedPorts(journal, may_move, theirs)
            finally:
                lease.end(run.journal)

    def _prepared(
        self, named: State, ours: State, wanted: State, deadline: Deadline
    ) -> PlannedChange:
        """Plan the move of the named ports from what is ours there to what is wanted."""
        ports = frozenset(named) | frozenset(named.values())
        if self._switch.capabilities.positions:
            ports = self.lab.switches[
                self.name
            ].usable  # such a switch moves as a whole, and this one is held by us
        limits = self.lab.light_limits()[self.name]
        crossbar = Crossbar(self.name, self._switch, ports, self.lab.wiring(), limits)
        crossbar.on_wait(self.tell)
        crossbar.adopt(ours, deadline)
        return PlannedChange(crossbar, *crossbar.plan(wanted, deadline))


@contextmanager
def open_manual_switch(
    lab: Lab,
    name: str,
    leases: Leases,
    *,
    force: bool,
    tell: Callable[[str], None] = _nobody,
) -> Iterator[ManualSwitch]:
    """Open a switch of a lab; with `force` move also what others have leased."""
    spec = lab.switches[name]
    with ExitStack() as stack:
        if is_exclusive(lab, name) and not force:
            stack.enter_context(InstrumentLock(name, box_of(lab, name), "testbed switch"))
        make = kind("drivers", spec.driver).load()
        options = options_of(lab, name)
        said = DeferredTranscript()
        stack.callback(said.close)
        switch = make(name, spec.resource, spec.usable, spec.identity, options, said)
        stack.callback(switch.close)
        identity = switch.open(Deadline.after(opening_seconds(lab, [name], _LIMIT)))
        yield ManualSwitch(lab, name, identity, switch, None if force else leases, said, tell)


def _pairs(cross: frozenset[CrossConnect]) -> dict[int, int]:
    return {c.ingress: c.egress for c in cross}
