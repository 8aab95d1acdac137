"""The undo journal entry for circuits: the initial state, and every cross-connect made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

from testbed.bench.crossbar import Crossbar
from testbed.bench.multi_switch_change import PlannedChange
from testbed.bench.orphaned_circuits import OrphanedCircuits
from testbed.bench.ownership import CrossPairs
from testbed.record.journal import Journal


class CircuitUndo:
    """The journal entry that restores the ports of some switches to their initial state.

    The entry is written to disk before the first change, and what a further one adds before that.
    Changes may go on side by side.
    """

    def __init__(self, journal: Journal, crossbars: Sequence[Crossbar]) -> None:
        """Take the switches of the entry, each with all ports that may be changed."""
        self._journal = journal
        self._crossbars = crossbars
        self._lock = Lock()
        self._entry: int | None = None
        self._made: dict[str, CrossPairs] = {}

    @property
    def is_open(self) -> bool:
        """Return whether the undo is still open."""
        return self._entry is not None

    def cover(self, moves: Sequence[PlannedChange]) -> None:
        """Add the cross-connects that planned changes will make to the journal entry."""
        adds = {move.crossbar.name: frozenset(move.change.adds.items()) for move in moves}
        with self._lock:
            if self._entry is None:
                self._begin(adds)
            else:
                self._extend(self._entry, adds, "nothing was changed")

    def settle(self) -> None:
        """Close the journal entry, as nothing is left to undo; do nothing if there is no entry."""
        with self._lock:
            if self._entry is not None:
                self._journal.settle(self._entry)
                self._entry, self._made = None, {}

    def adopt_undo(
        self, entry: Mapping[str, Any], left: Sequence[OrphanedCircuits], alone: Collection[str]
    ) -> None:
        """Take over an open entry of a dead run, for the switches that are open here.

        Switches in `alone` cannot have been used by another run since.
        """
        self._entry = entry["id"]
        self._made = {name: _pairs(entry["made"].get(name, ())) for name in entry["ports"]}
        for crossbar in left:
            name = crossbar.name
            start = dict(_pairs(entry["start"][name]))
            crossbar.adopt_undo(start, self._made[name], alone=name in alone)
        self._subscribe(left)

    def _begin(self, adds: Mapping[str, CrossPairs]) -> None:
        start = {one.name: sorted(one.start.items()) for one in self._crossbars}
        ports = {one.name: sorted(one.ports) for one in self._crossbars}
        made = {one.name: adds.get(one.name, frozenset()) for one in self._crossbars}
        self._entry = self._journal.record_undo(
            "circuits", start=start, ports=ports, made=_listed(made)
        )
        self._made = made
        self._subscribe(self._crossbars)

    def _extend(self, entry: int, adds: Mapping[str, CrossPairs], consequence: str) -> None:
        """Append what the entry does not have yet; the file grows by that alone."""
        new = {name: cross - self._made.get(name, frozenset()) for name, cross in adds.items()}
        if new := {name: cross for name, cross in new.items() if cross}:
            self._journal.extend(entry, consequence=consequence, made=_listed(new))
            for name, cross in new.items():
                self._made[name] = self._made.get(name, frozenset()) | cross

    def _subscribe(self, crossbars: Iterable[Crossbar]) -> None:
        for crossbar in crossbars:
            crossbar.callbacks.on_unrequested = self._add

    def _add(self, switch: str, astray: CrossPairs) -> None:
        """Journal cross-connects that a switch made instead of those that were commanded."""
        with self._lock:
            if self._entry is not None:
                lost = f"no record says that {switch} made {sorted(astray)} on our ports"
                self._extend(self._entry, {switch: astray}, lost)


def _pairs(listed: Iterable[Iterable[int]]) -> CrossPairs:
    return frozenset((ingress, egress) for ingress, egress in listed)


def _listed(made: Mapping[str, CrossPairs]) -> dict[str, list[tuple[int, int]]]:
    return {name: sorted(cross) for name, cross in made.items()}
