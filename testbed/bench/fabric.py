"""The only code that changes circuits: `Fabric.change`.

Each change goes lease check → pure planner → journal → driver → verification, and is rolled back
when one of its switches fails. Steps, policies, faults and undo all use it, so that the circuits of
this run, the initial state and the pending undo are known in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from threading import RLock
from typing import Any, TypeVar

from testbed.bench.circuit_undo import CircuitUndo
from testbed.bench.contracts import OpticalSwitch
from testbed.bench.crossbar import Crossbar
from testbed.bench.multi_switch_change import (
    FabricChange,
    ForeignCircuitsLost,
    PlannedChange,
    change_all,
    is_rolled_back,
    not_all_back,
    summed,
)
from testbed.bench.orphaned_circuits import OrphanedCircuits
from testbed.bench.permission import Guard
from testbed.bench.verification import WallTime
from testbed.clock import Deadline, now
from testbed.errors import BusyError, TestbedError, UnsafeError
from testbed.fabric.circuits import (
    CrossConnect,
    HostPort,
    Matching,
    SwitchPort,
    Wiring,
    cross_connects,
)
from testbed.fabric.light import NO_LIMITS, LightLimits
from testbed.record.journal import Journal
from testbed.record.lease import CHANGE_LIMIT
from testbed.record.log import EventLog

_Ports = TypeVar("_Ports", bound=Crossbar)


class Fabric:
    """The optical switches of a lab that one plan may use; changes are made one at a time."""

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
    ) -> None:
        """Take the opened switches; `ports` are the host ports that the plan uses.

        `added` returns how many dB the testbed has an attenuator take in a fibre for now.
        """
        self._switches = switches
        self._limits = limits
        self._clock = clock
        self._added = added
        self._leased = leased
        self._wiring = wiring
        self._log = log
        self._lock = RLock()
        self.circuits: Matching = frozenset()
        """The circuits on our ports since the last change."""
        self._others_gone: list[str] = []
        """The foreign circuits that our changes removed, in words."""
        self._orphaned: list[OrphanedCircuits] = []
        """The ports taken over from a dead run."""
        self._crossbars = [
            self._crossbar(Crossbar, name, numbers)
            for name, numbers in _ports_by_switch(ports, wiring).items()
        ]
        self._undo = CircuitUndo(journal, self._crossbars)

    def _crossbar(self, make: type[_Ports], name: str, ports: frozenset[int]) -> _Ports:
        limits = self._limits.get(name, NO_LIMITS)
        around = (self._wiring, limits, self._clock, self._added)
        crossbar = make(name, self._switches[name], ports, *around)
        callbacks = crossbar.callbacks
        callbacks.may_move = lambda: self._leased.check(name, crossbar.ports)
        callbacks.leased_elsewhere = partial(self._leased.held_by_others, name)
        callbacks.on_wait = partial(self._note, name)
        callbacks.on_lost_answer = self._note_lost_answer
        return crossbar

    def _note(self, switch: str, text: str) -> None:
        self._log.append("note", switch, text=text)

    def _note_lost_answer(self, switch: str, why: str) -> None:
        self._log.append("retry", switch, what="reading what a change did", why=why)

    def adopt(self, wanted: Matching, deadline: Deadline) -> None:
        """Read every switch and adopt the circuits on the plan's ports as the state to restore.

        Raise BusyError with the difference when a circuit there is not part of `wanted`.
        """
        cross = cross_connects(wanted, self._wiring)
        for crossbar in self._crossbars:
            crossbar.adopt(_on(crossbar.name, cross), deadline)
            if crossbar.was_unknown:
                text = "it cannot be asked which circuits it holds; the first change sets all of it"
                self._note(crossbar.name, text)

    def change(self, wanted: Matching, owner: str, deadline: Deadline) -> FabricChange:
        """Make `wanted` the circuits on the plan's ports and return when that is verified.

        Verification uses the read-back and the reports of the switches; only hosts can verify that
        light arrives. Raise BusyError when the ports are not leased, or were changed or are used by
        others; InstrumentError when a switch failed and everything was rolled back; UnsafeError
        when that was not possible.
        """
        cross = cross_connects(wanted, self._wiring)
        with self._lock:
            for crossbar in self._crossbars:
                self._leased.check(crossbar.name, crossbar.ports)
            deadline = deadline.within(CHANGE_LIMIT)
            planned = [
                PlannedChange(c, *c.plan(_on(c.name, cross), deadline)) for c in self._crossbars
            ]
            self._undo.cover(planned)
            began = now()
            try:
                moved = change_all(planned, deadline)
            except TestbedError as error:
                self._report_failure(owner, wanted, error)
                raise
            self._note_others(planned)
            done = summed(planned, moved, began)
            self.circuits = wanted
            self._report(owner, wanted, done)
            return done

    @property
    def has_limited(self) -> bool:
        """Return whether a port of the plan leads to a receiver with a limit on its light."""
        return any(crossbar.has_limited for crossbar in self._crossbars)

    def overloads(self, deadline: Deadline) -> dict[CrossConnect, str]:
        """Measure receivers with a limit on their light; return the circuits that exceed it.

        The call neither waits for a change in progress nor delays it.
        """
        limited = [crossbar for crossbar in self._crossbars if crossbar.has_limited]
        return {c: word for one in limited for c, word in one.overloads(deadline).items()}

    def darken_overloads(self, deadline: Deadline) -> dict[CrossConnect, str]:
        """Remove and return the circuits that give a receiver too much light, each described."""
        with self._lock:
            found = self.overloads(deadline)
            if found:
                too_bright = {
                    c for c in self.circuits if cross_connects([c], self._wiring) & found.keys()
                }
                self.change(self.circuits - too_bright, "light", deadline)
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
        with self._lock:
            for crossbar in self._crossbars:
                crossbar.check(deadline)

    def restore(self, deadline: Deadline) -> None:
        """Restore the plan's ports to the state that `adopt` found; raise UnsafeError on failure.

        An error at one switch does not stop the restoration of the others.
        """
        with self._lock:
            if not self._undo.is_open:
                return
            problems: list[TestbedError] = []
            done: list[str] = []
            for crossbar in self._crossbars:
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
            self.discard_undo()
            if self._others_gone:
                raise ForeignCircuitsLost(
                    "; ".join(self._others_gone),
                    hint="tell the owner of these circuits; those of this run are restored",
                )

    def discard_undo(self) -> None:
        """Leave the circuits of this run in place: close their undo without carrying it out."""
        with self._lock:
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
        with self._lock:
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

    def _report(self, owner: str, wanted: Matching, done: FabricChange) -> None:
        self._log.append(
            "fabric.change",
            owner,
            circuits=sorted(map(str, wanted)),
            removed=sorted(map(str, done.removed)),
            added=sorted(map(str, done.added)),
            disturbed=sorted(map(str, done.disturbed)),
            commanded=self._log.at(done.commanded),
            read_back=self._log.at(done.read_back),
            steady=None if done.steady is None else self._log.at(done.steady),
            lit=None if done.lit is None else self._log.at(done.lit),
        )

    def _report_failure(self, owner: str, wanted: Matching, error: TestbedError) -> None:
        self._log.append(
            "fabric.failed",
            owner,
            circuits=sorted(map(str, wanted)),
            reason=str(error),
            rolled_back=is_rolled_back(error),
        )


def _ports_by_switch(ports: Iterable[HostPort], wiring: Wiring) -> dict[str, frozenset[int]]:
    ends = {end for port in ports for end in (wiring[port].tx, wiring[port].rx)}
    names = sorted({end.switch for end in ends})
    return {name: frozenset(end.number for end in ends if end.switch == name) for name in names}


def _on(switch: str, cross: Iterable[CrossConnect]) -> dict[int, int]:
    return {c.ingress: c.egress for c in cross if c.switch == switch}
