"""The only code that changes circuits: `Fabric.change` and what is made of it.

Each change goes lease check → pure planner → journal → driver → verification, and is rolled back
when one of its switches fails. Steps, policies, faults and undo all use it, so that all owners'
circuits, the initial state and the pending undo are known in one place. Owners change their own
circuits alone; where two share no port they do it side by side, on one switch as on several.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from testbed.bench.circuit_undo import CircuitUndo
from testbed.bench.contracts import OpticalSwitch
from testbed.bench.crossbar import Crossbar
from testbed.bench.crossbars import Crossbars, numbers_on, pairs_on
from testbed.bench.fabric_events import log_change, log_failure
from testbed.bench.multi_switch_change import (
    FabricChange,
    ForeignCircuitsLost,
    PlannedChange,
    change_all,
    not_all_back,
    summed,
)
from testbed.bench.orphaned_circuits import OrphanedCircuits
from testbed.bench.owned_circuits import Edit, OwnedCircuits, OwnersChange
from testbed.bench.permission import Guard
from testbed.bench.verification import WallTime
from testbed.clock import Deadline, now
from testbed.errors import BusyError, TestbedError, UnsafeError
from testbed.events.origin import Origin, attributed
from testbed.fabric.circuits import (
    Circuit,
    CrossConnect,
    FibrePair,
    HostPort,
    Matching,
    SwitchPort,
    Wiring,
    cross_connects,
)
from testbed.fabric.light import NO_LIMITS, LightLimits
from testbed.fabric.owners import Owned, merged
from testbed.record.journal import Journal
from testbed.record.lease import CHANGE_LIMIT
from testbed.record.log import EventLog

_Ports = TypeVar("_Ports", bound=Crossbar)


class Fabric:
    """The optical switches of a lab that one plan may use."""

    def __init__(
        self,
        switches: Mapping[str, OpticalSwitch],
        wiring: Wiring,
        ports: Iterable[HostPort],
        journal: Journal,
        log: EventLog,
        leased: Guard,
        limits: Mapping[str, LightLimits] = {},
        clock: WallTime = WallTime(),  # noqa: B008 - frozen
        added: Callable[[SwitchPort], float] = lambda fibre: 0.0,
        between: Collection[FibrePair] = (),
    ) -> None:
        """Take the opened switches; `ports` are the host ports that the plan uses.

        `between` are fibres from switch to switch that it may use.

        `added` returns how many dB the testbed has an attenuator take in a fibre for now.
        """
        self._switches = switches
        self._limits = limits
        self._clock = clock
        self._added = added
        self._between = between
        self._leased = leased
        self._logging = Lock()
        self._wiring = wiring
        self._log = log
        self._crossbars = Crossbars(wiring)
        self.owned = OwnedCircuits(wiring, self._crossbars.reach)
        """The circuits of each owner, as its last change left them."""
        self._others_gone: list[str] = []
        """The foreign circuits that our changes removed, in words."""
        self._orphaned: list[OrphanedCircuits] = []
        """The ports taken over from a dead run."""
        for name, numbers in _ports_by_switch(ports, wiring, between).items():
            self._crossbars.all.append(self._crossbar(Crossbar, name, numbers))
        self._undo = CircuitUndo(journal, self._crossbars.all)

    def _crossbar(self, make: type[_Ports], name: str, ports: frozenset[int]) -> _Ports:
        limits = self._limits.get(name, NO_LIMITS)
        around = (self._wiring, limits, self._clock, self._added, self._between)
        crossbar = make(name, self._switches[name], ports, *around)
        callbacks = crossbar.callbacks
        callbacks.may_move = lambda: self._leased.check(name, crossbar.ports)
        callbacks.leased_elsewhere = partial(self._leased.held_by_others, name)
        callbacks.changing = partial(self.owned.changing_on, name)
        callbacks.on_wait = partial(self._note, name)
        callbacks.on_lost_answer = self._note_lost_answer
        return crossbar

    def _note(self, switch: str, text: str) -> None:
        self._log.append("note", switch, text=text)

    def _note_lost_answer(self, switch: str, why: str) -> None:
        self._log.append("retry", switch, what="reading what a change did", why=why)

    @property
    def circuits(self) -> Matching:
        """Return the circuits of all owners, as their last changes left them."""
        return self.owned.all

    def adopt(self, wanted: Owned, deadline: Deadline) -> None:
        """Read every switch and adopt the circuits on the plan's ports as the state to restore.

        `wanted` are the first circuits of each owner; it owns those of them that are there. Raise
        BusyError with the difference when a circuit there is not part of `wanted`.
        """
        cross = cross_connects(merged(wanted), self._wiring)
        found: set[CrossConnect] = set()
        for crossbar in self._crossbars.all:
            crossbar.adopt(pairs_on(crossbar.name, cross), deadline)
            found |= {CrossConnect(crossbar.name, *pair) for pair in crossbar.start.items()}
            if crossbar.was_unknown:
                text = "it cannot be asked which circuits it holds; the first change sets all of it"
                self._note(crossbar.name, text)
        self.owned.adopt(wanted, found)

    def change(
        self, owner: str, remove: Matching, add: Matching, deadline: Deadline, by: str = ""
    ) -> FabricChange:
        """Remove circuits of an owner, add others, and return when that is verified.

        A circuit that the owner has stays unless it is removed, and those of other owners are never
        touched. Blocks while another change of this owner, or of one of these ports, is under way.
        Verification uses the read-back and the reports of the switches; only hosts can verify that
        light arrives. `by` gave the order, by default the owner; it is the subject of the event.

        Raise BusyError when a circuit or a port is another owner's, which is found before anything
        moves, when the ports are not leased, or were changed or are used by others;
        InstrumentError when a switch failed and everything was rolled back; UnsafeError when that
        was not possible.
        """
        return self._change(owner, lambda mine: (remove, add), deadline, by)

    def set_circuits(
        self, owner: str, wanted: Matching, deadline: Deadline, by: str = ""
    ) -> FabricChange:
        """Make `wanted` all circuits of an owner; the rest is as in `change`."""
        return self._change(owner, lambda mine: (mine - wanted, wanted - mine), deadline, by)

    def take_down(
        self, is_chosen: Callable[[Circuit], bool], deadline: Deadline, by: str = ""
    ) -> None:
        """Remove every circuit that is chosen, whoever owns it; the rest is as in `change`.

        Where there is none, the circuits of every owner are verified to be all that there are.
        """

        def chosen(mine: Matching) -> tuple[Matching, Matching]:
            return frozenset(circuit for circuit in mine if is_chosen(circuit)), frozenset()

        owners = self.owned.owners
        for owner in [one for one in owners if chosen(self.owned.of(one))[0]] or owners:
            self._change(owner, chosen, deadline, by)

    def _change(self, owner: str, edit: Edit, deadline: Deadline, by: str) -> FabricChange:
        origin, by = Origin(owner=owner), by or owner
        with attributed(origin), self.owned.changing(owner, edit, deadline) as change:
            for crossbar in self._crossbars.all:
                self._leased.check(crossbar.name, crossbar.ports)
            done = self._carried_out(change, deadline.within(CHANGE_LIMIT), by)
            with self._logging:  # else another change made meanwhile were in this event, too
                self.owned.commit(change)
                log_change(self._log, by, self.circuits, done)
            return done

    def _carried_out(self, change: OwnersChange, deadline: Deadline, by: str) -> FabricChange:
        with self._crossbars.parts(change.owner, change.ports) as parts:
            planned = self._crossbars.plan(change, parts, deadline)
            self._undo.cover(planned)
            began = now()
            try:
                moved = change_all(planned, deadline)
            except TestbedError as error:
                log_failure(self._log, by, merged(change.circuits), error)
                raise
            self._note_others(planned)
            return summed(planned, moved, began)

    @property
    def settles_unseen(self) -> bool:
        """Return whether a change is over before its mirrors stand, as no switch tells of them."""
        return all(crossbar.settles_unseen for crossbar in self._crossbars.all)

    @property
    def has_limited(self) -> bool:
        """Return whether a port of the plan leads to a receiver with a limit on its light."""
        return any(crossbar.has_limited for crossbar in self._crossbars.all)

    def overloads(self, deadline: Deadline) -> dict[CrossConnect, str]:
        """Measure receivers with a limit on their light; return the circuits that exceed it.

        The call neither waits for a change in progress nor delays it.
        """
        return self._crossbars.overloads(deadline)

    def darken_overloads(self, deadline: Deadline) -> dict[CrossConnect, str]:
        """Remove and return the circuits that give a receiver too much light, each described."""
        with self.owned.everything(deadline):
            found = self.overloads(deadline)
        if found:
            bright, wiring = found.keys(), self._wiring
            self.take_down(lambda c: bool(cross_connects([c], wiring) & bright), deadline, "light")
        return found

    def _note_others(self, moves: Iterable[PlannedChange]) -> None:
        """Log the foreign circuits that a change removed; the end of the run repeats it."""
        for move in moves:
            if words := move.change and move.crossbar.others_gone():
                text = f"{move.crossbar.name}: with {move.change} {words}"
                self._note(move.crossbar.name, text)
                self._others_gone.append(text)

    def check(self, deadline: Deadline) -> None:
        """Read every switch; raise BusyError when the plan's ports are not as expected."""
        with self.owned.everything(deadline):
            for crossbar in self._crossbars.all:
                crossbar.check(deadline)

    def restore(self, deadline: Deadline) -> None:
        """Restore the plan's ports to the state that `adopt` found; raise UnsafeError on failure.

        An error at one switch does not stop the restoration of the others.
        """
        try:
            with self.owned.everything(deadline):
                if self._undo.is_open:
                    self._restore(deadline)
        except BusyError as error:
            raise UnsafeError(f"the switches were not brought back: {error}") from error

    def _restore(self, deadline: Deadline) -> None:
        problems: list[TestbedError] = []
        done: list[str] = []
        for crossbar in self._crossbars.all:
            try:
                self._leased.check(crossbar.name, crossbar.ports)
                crossbar.restore(deadline)
                done.append(crossbar.name)
            except BusyError as error:
                words = f"{crossbar.name} is left with {crossbar.shown}: {error.args[0]}"
                problems.append(UnsafeError(words, hint=error.hint))
            except UnsafeError as error:
                problems.append(error)
        if problems:
            raise not_all_back(problems, done)
        self._undo.settle()
        self.owned.restore()
        if self._others_gone:
            raise ForeignCircuitsLost(
                "; ".join(self._others_gone),
                hint="tell the owner of these circuits; those of this run are restored",
            )

    def discard_undo(self, deadline: Deadline) -> None:
        """Leave the circuits of this run in place: close their undo without carrying it out."""
        with self.owned.everything(deadline):
            self._undo.settle()

    def adopt_undo(self, undo: Mapping[str, Any], alone: Collection[str] = ()) -> None:
        """Take over the undo entry of a dead run, for the switches that are open here.

        Switches in `alone` cannot have been used by another run since. `bring_back` then restores.
        """
        ports = {n: frozenset(p) for n, p in undo["ports"].items() if n in self._switches}
        self._orphaned = [self._crossbar(OrphanedCircuits, n, p) for n, p in ports.items()]
        self._undo.adopt_undo(undo, self._orphaned, alone)

    def bring_back(self, deadline: Deadline) -> list[str]:
        """Restore the ports that were taken over, except where other clients' circuits use them.

        Another client's circuit stays; then the ports are set to the safe state of the lab instead,
        and a sentence on that is returned. Raise UnsafeError for what is still as the dead run left
        it; the other switches are restored all the same.
        """
        words: list[str] = []
        problems: list[TestbedError] = []
        for crossbar in self._orphaned:
            try:
                self._leased.check(crossbar.name, crossbar.ports)
                words += crossbar.bring_back(deadline)
            except TestbedError as error:
                problems.append(error)
        if len(problems) == 1:
            raise problems[0]
        if problems:
            raise UnsafeError("; ".join(map(str, problems)))
        return words


def _ports_by_switch(
    ports: Iterable[HostPort], wiring: Wiring, between: Iterable[FibrePair]
) -> dict[str, frozenset[int]]:
    ends = {end for port in ports for end in (wiring[port].tx, wiring[port].rx)}
    ends.update(*(pair.ends for pair in between))
    names = sorted({end.switch for end in ends})
    return {name: numbers_on(name, ends) for name in names}
