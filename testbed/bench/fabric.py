"""The one door to the fabric: no light moves except through `Fabric.change`.

Each change goes lease check → pure planner → journal → driver → verify. Steps, policies, faults
and undo all come through here, so what is ours, what was there before and what must be taken back
are known in one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import RLock

from testbed.bench.contracts import OpticalSwitch
from testbed.bench.crossbar import Crossbar
from testbed.clock import Deadline, now
from testbed.errors import UnsafeError
from testbed.fabric.change import Change
from testbed.fabric.circuits import CrossConnect, HostPort, Matching, Wiring, cross_connects
from testbed.record.journal import Journal
from testbed.record.log import EventLog


@dataclass(frozen=True, slots=True)
class FabricChange:
    """What one change did, with instants on this machine's monotonic clock."""

    commanded: float
    read_back: float
    removed: frozenset[CrossConnect]
    added: frozenset[CrossConnect]


class Fabric:
    """The optical switches of a lab, as far as one plan may use them; one change at a time."""

    def __init__(
        self,
        switches: Mapping[str, OpticalSwitch],
        wiring: Wiring,
        ports: Iterable[HostPort],
        journal: Journal,
        log: EventLog,
    ) -> None:
        """Take the opened switches; `ports` are the host ports that the plan uses."""
        self._wiring = wiring
        self._journal = journal
        self._log = log
        self._lock = RLock()
        self._promise: int | None = None
        self.circuits: Matching = frozenset()
        """What the last change made of our ports."""
        self._crossbars = [
            Crossbar(name, switches[name], numbers, wiring)
            for name, numbers in _ports_by_switch(ports, wiring).items()
        ]

    def adopt(self, wanted: Matching, deadline: Deadline) -> None:
        """Read every switch and take what is on our ports as the state to return to.

        Raise BusyError with the difference when something there is not part of `wanted`.
        """
        cross = cross_connects(wanted, self._wiring)
        for crossbar in self._crossbars:
            crossbar.adopt(_on(crossbar.name, cross), deadline)

    def change(self, wanted: Matching, owner: str, deadline: Deadline) -> FabricChange:
        """Make `wanted` the circuits on our ports and return when they read back.

        Light follows after the switch's settle time; only the hosts can tell that it is there.
        Raise BusyError when somebody else changed or occupies our ports, InstrumentError when a
        switch does not show what it was told.
        """
        cross = cross_connects(wanted, self._wiring)
        with self._lock:
            planned = [(c, *c.plan(_on(c.name, cross), deadline)) for c in self._crossbars]
            self._promise_restore()
            began = now()
            applied = [c.apply(state, change, deadline) for c, state, change in planned if change]
            commanded = min((a.commanded for a in applied), default=began)
            read_back = max((a.read_back for a in applied), default=now())
            moved = _moved({crossbar.name: change for crossbar, _, change in planned})
            result = FabricChange(commanded, read_back, *moved)
            self.circuits = wanted
            self._report(owner, wanted, result)
            return result

    def restore(self, deadline: Deadline) -> None:
        """Bring our ports back to what `adopt` found; raise UnsafeError when they are not.

        A switch that cannot be brought back does not keep the others from it.
        """
        with self._lock:
            if self._promise is None:
                return
            problems: list[UnsafeError] = []
            for crossbar in self._crossbars:
                try:
                    crossbar.restore(deadline)
                except UnsafeError as error:
                    problems.append(error)
            if problems:
                raise UnsafeError("; ".join(map(str, problems)))
            self.keep()

    def keep(self) -> None:
        """Leave our circuits as they are now, as the experiment wants it."""
        with self._lock:
            if self._promise is not None:
                self._journal.settle(self._promise)
                self._promise = None

    def _promise_restore(self) -> None:
        if self._promise is None:
            start = {c.name: sorted(c.start.items()) for c in self._crossbars}
            ports = {c.name: sorted(c.ports) for c in self._crossbars}
            self._promise = self._journal.promise("circuits", start=start, ports=ports)

    def _report(self, owner: str, wanted: Matching, done: FabricChange) -> None:
        self._log.append(
            "fabric.change",
            owner,
            circuits=sorted(map(str, wanted)),
            removed=sorted(map(str, done.removed)),
            added=sorted(map(str, done.added)),
            commanded=self._log.at(done.commanded),
            read_back=self._log.at(done.read_back),
        )


def _ports_by_switch(ports: Iterable[HostPort], wiring: Wiring) -> dict[str, frozenset[int]]:
    ends = {end for port in ports for end in (wiring[port].tx, wiring[port].rx)}
    names = sorted({end.switch for end in ends})
    return {name: frozenset(end.number for end in ends if end.switch == name) for name in names}


def _on(switch: str, cross: Iterable[CrossConnect]) -> dict[int, int]:
    return {c.ingress: c.egress for c in cross if c.switch == switch}


def _moved(
    changes: Mapping[str, Change],
) -> tuple[frozenset[CrossConnect], frozenset[CrossConnect]]:
    removed = {CrossConnect(n, i, e) for n, c in changes.items() for i, e in c.removes.items()}
    added = {CrossConnect(n, i, e) for n, c in changes.items() for i, e in c.adds.items()}
    return frozenset(removed), frozenset(added)
