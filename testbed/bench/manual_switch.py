"""Change the circuits of one switch on a user's command, with the checks of `Fabric.change`.

These circuits stay after the command; until they are verified their undo is in a journal, which
`recover` carries out if this process is killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from testbed.bench.circuit_undo import CircuitUndo
from testbed.bench.conformance_probe import Probe, probed_sides, spare_ports
from testbed.bench.contracts import Identity, OpticalSwitch
from testbed.bench.cross_connect_rows import CrossConnectRow, contradiction, read_rows
from testbed.bench.crossbar import Crossbar
from testbed.bench.instrument_factory import make_instrument, opening_seconds
from testbed.bench.lease_resources import box_of, is_exclusive, part_of
from testbed.bench.multi_switch_change import (
    ForeignCircuitsLost,
    PlannedChange,
    VerifiedChange,
    change_all,
    is_rolled_back,
    take_back_verified,
)
from testbed.bench.permission import Guard
from testbed.clock import Deadline, now
from testbed.errors import InstrumentError, NotKnown, TestbedError
from testbed.fabric.card import Card
from testbed.fabric.change import Change
from testbed.fabric.circuits import CrossConnect, HostEnds
from testbed.fabric.device import State
from testbed.record.journal import Journal
from testbed.record.lease_rules import Resource
from testbed.record.leases import Leases
from testbed.record.locks import InstrumentLock
from testbed.record.rundir import RunDirectory
from testbed.record.transcript import Transcript
from testbed.schema import Lab

_LIMIT = 10.0
_LOOKS = 3
"""Reads of a switch whose state changes meanwhile."""


_Plan = Callable[[State, State, Deadline], PlannedChange]
"""Plans a change of named cross-connects to those of them that are wanted."""


@dataclass(frozen=True, slots=True)
class LeasedPorts:
    """The ports that are leased while a user's command changes their circuits."""

    journal: Journal
    may_move: Callable[[], None] = lambda: None
    """Raises BusyError once the lease is lost; permits all where a person forces the change."""
    leased_elsewhere: Callable[[frozenset[int]], frozenset[int]] = lambda ports: frozenset()
    """Returns the ports that are leased to others, who may change them."""

    def permit(self, crossbar: Crossbar) -> None:
        """Make a crossbar check this lease before each command to the switch."""
        crossbar.callbacks.may_move = self.may_move
        crossbar.callbacks.leased_elsewhere = self.leased_elsewhere


@dataclass(frozen=True, slots=True)
class ManualChange:
    """The result of a user's command that changes circuits."""

    moved: VerifiedChange | None
    """None when there was nothing to change."""
    rows: list[CrossConnectRow]
    """The last read-back, which is as wanted."""


@dataclass(frozen=True, slots=True)
class ManualSwitch:
    """An open switch of a lab, for commands of a user."""

    lab: Lab
    name: str
    identity: Identity
    _switch: OpticalSwitch
    _leases: Leases | None
    """None when a person forces the change of ports that others have leased."""
    _transcript: Transcript
    on_wait: Callable[[str], None]
    """Called with the reason for a long wait."""

    def rows(self) -> list[CrossConnectRow]:
        """Read and return every cross-connect with its host ports, state and light."""
        return read_rows(self.lab, self.name, self._switch, Deadline.after(_LIMIT))

    def ends(self, ingress: int, egress: int) -> str:
        """Return the names of the host ports and fibres that a cross-connect joins."""
        ends = HostEnds(self.lab.wiring(), self.lab.fibre_pairs().values())
        return str(ends.of(CrossConnect(self.name, ingress, egress)))

    def probe(
        self, ports: list[int], label: str, run: RunDirectory, on_progress: Callable[[str], None]
    ) -> Card:
        """Run the conformance probe on two ingress and two egress ports, spare ones by default."""
        can = self._switch.capabilities
        if ports:
            ingress, egress = probed_sides(ports, can)
        else:
            state = self._switch.state(Deadline.after(_LIMIT))
            ingress, egress = spare_ports(self.lab, self.name, can, state)
        driver = self.lab.switches[self.name].driver
        with self._leased(frozenset({*ingress, *egress}), run) as leased:
            within = leased.journal, leased.may_move
            probe = Probe(self.name, self._switch, ingress, egress, *within)
            return probe.run(driver, label, on_progress)

    def connect(self, cross: frozenset[CrossConnect], run: RunDirectory) -> ManualChange:
        """Add cross-connects and verify them; do nothing for those that exist already.

        Their undo is in the journal of `run` meanwhile. Raise BusyError when one of their ports is
        in use, UnsafeError when the change failed and is not known to be rolled back, or when it
        removed circuits of other clients.
        """
        pairs = _pairs(cross)
        return self._change(self._pair_by_pair, pairs, pairs, run)

    def disconnect(self, cross: frozenset[CrossConnect], run: RunDirectory) -> ManualChange:
        """Remove cross-connects, with the guarantees of `connect`; skip those that do not exist."""
        return self._change(self._pair_by_pair, _pairs(cross), {}, run)

    def planned(self, cross: frozenset[CrossConnect]) -> Change:
        """Return the change that `apply` would make, without making it."""
        pairs = _pairs(cross)
        return self._as_listed(pairs, pairs, Deadline.after(_LIMIT)).change

    def apply(self, cross: frozenset[CrossConnect], run: RunDirectory) -> ManualChange:
        """Make the listed cross-connects the only ones on the ports that they use.

        Raise BusyError when a listed port is connected to one that is not listed, and the errors of
        `connect`.
        """
        pairs = _pairs(cross)
        return self._change(self._as_listed, pairs, pairs, run)

    def _change(self, plan: _Plan, named: State, wanted: State, run: RunDirectory) -> ManualChange:
        with self._leased(_ports(named), run) as leased:
            deadline = Deadline.after(_LIMIT)
            move = plan(named, wanted, deadline)
            leased.permit(move.crossbar)
            gone = {**move.change.removes, **dict(named.items() - wanted.items())}
            return self._made(move, wanted, gone, leased.journal, deadline)

    def _as_listed(self, named: State, wanted: State, deadline: Deadline) -> PlannedChange:
        """Plan to make the wanted cross-connects the only ones between the named ports."""
        try:
            present = self._switch.state(deadline)
        except NotKnown:  # a list is all that such a switch is to hold
            self._switch.presume({})
            present = {}
        ours = {i: e for i, e in present.items() if {i, e} <= _ports(named)}
        return self._prepared(named, ours, wanted, deadline)

    def _pair_by_pair(self, named: State, wanted: State, deadline: Deadline) -> PlannedChange:
        """Plan a change of the named cross-connects, each of which exists or does not."""
        present = self._switch.state(deadline)
        ours = {i: e for i, e in present.items() if named.get(i) == e}
        return self._prepared(named, ours, wanted, deadline)

    def _made(
        self, move: PlannedChange, wanted: State, gone: State, journal: Journal, deadline: Deadline
    ) -> ManualChange:
        """Make a change, wait for its mirrors to settle, and read a last time.

        A change that this read contradicts is rolled back as any other that failed.
        """
        if not move.change:
            rows = self._last_rows()
            if problem := contradiction(rows, wanted, gone):
                raise InstrumentError(
                    self.name,
                    f"nothing was changed, because it was already as wanted; now {problem}",
                )
            return ManualChange(None, rows)
        undo = CircuitUndo(journal, [move.crossbar])
        undo.cover([move])
        try:
            moved = change_all([move], deadline)[0]
            rows = self._settled(move, moved)
            if problem := contradiction(rows, wanted, gone):
                take_back_verified(
                    move,
                    InstrumentError(self.name, f"the change was verified, but now {problem}"),
                )
        except TestbedError as error:  # after any other error the outcome is unknown
            if is_rolled_back(error):
                undo.settle()
            raise
        undo.settle()
        if words := move.crossbar.others_gone():
            raise ForeignCircuitsLost(f"{self.name}: {move.change} is done, but {words}")
        return ManualChange(moved, rows)

    def _settled(self, move: PlannedChange, moved: VerifiedChange) -> list[CrossConnectRow]:
        """Return the rows once light that was not waited for has had time to settle."""
        can = self._switch.capabilities
        if moved.verified.lit is None and can.monitored & {*move.change.adds.values()}:
            time.sleep(max(0.0, moved.applied.read_back + can.settle_max + can.averaging - now()))
        try:
            return self._last_rows()
        except InstrumentError as error:
            why = str(error.args[0]).removeprefix(f"{self.name}: ")
            said = (
                f"{move.change} was made and verified, but reading it back at the end failed: {why}"
            )
            raise type(error)(self.name, said, reply=error.reply, hint=error.hint) from error

    def _last_rows(self) -> list[CrossConnectRow]:
        """Return the rows if the state was the same from the first to the last read."""
        for _ in range(_LOOKS):
            rows = self.rows()
            shown = {row.ingress: row.egress for row in rows}
            if all(self._switch.state(Deadline.after(_LIMIT)) == shown for _ in range(2)):
                return rows
        raise InstrumentError(
            self.name, f"its circuits changed during each of {_LOOKS} attempts to read them"
        )

    @contextmanager
    def _leased(self, ports: frozenset[int], run: RunDirectory) -> Iterator[LeasedPorts]:
        """Lease ports while they are changed, with the journal and the transcript of `run`.

        Without `_leases` they are taken whatever run has them. Raise BusyError with the run that
        has them. They stay leased where an undo is left.
        """
        self._transcript.write_to(run.wire(self.name), self.name)
        with closing(Journal(run.journal)) as journal:
            if self._leases is None:
                yield LeasedPorts(journal)
                return
            guard = Guard(self.lab)
            guard.answered.instrument(self.name, self.identity)
            parts = (part_of(self.lab, self.name, str(port)) for port in ports)
            wanted = frozenset[Resource]().union(*parts)
            wanted |= guard.answered.resources(wanted)
            lease = self._leases.take(wanted, "testbed switch", run)
            guard.hold(lease)
            may_move = partial(guard.check, self.name, ports)
            try:
                yield LeasedPorts(journal, may_move, partial(guard.held_by_others, self.name))
            finally:
                lease.end(run.journal)

    def _prepared(
        self, named: State, ours: State, wanted: State, deadline: Deadline
    ) -> PlannedChange:
        """Plan the change of the named ports from our circuits there to the wanted ones."""
        ports = _ports(named)
        if self._switch.capabilities.positions:  # it moves as a whole, and is leased as a whole
            ports = self.lab.switches[self.name].usable
        limits = self.lab.light_limits()[self.name]
        crossbar = Crossbar(self.name, self._switch, ports, self.lab.wiring(), limits)
        crossbar.callbacks.on_wait = self.on_wait
        crossbar.adopt(ours, deadline)
        return PlannedChange(crossbar, *crossbar.plan(wanted, deadline))


@contextmanager
def open_manual_switch(
    lab: Lab,
    name: str,
    leases: Leases,
    *,
    force: bool,
    on_wait: Callable[[str], None] = lambda text: None,
) -> Iterator[ManualSwitch]:
    """Open a switch of a lab; with `force` change also ports that others have leased."""
    with ExitStack() as stack:
        if is_exclusive(lab, name) and not force:
            stack.enter_context(InstrumentLock(name, box_of(lab, name), "testbed switch"))
        transcript = stack.enter_context(closing(Transcript()))
        switch: Any = stack.enter_context(closing(make_instrument(lab, name, transcript)))
        identity = switch.open(Deadline.after(opening_seconds(lab, [name], _LIMIT)))
        yield ManualSwitch(
            lab, name, identity, switch, None if force else leases, transcript, on_wait
        )


def _pairs(cross: frozenset[CrossConnect]) -> dict[int, int]:
    return {c.ingress: c.egress for c in cross}


def _ports(pairs: State) -> frozenset[int]:
    return frozenset({*pairs, *pairs.values()})
