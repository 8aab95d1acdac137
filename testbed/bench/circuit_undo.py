"""What the undo journal says of moved light: where it was, what is made, and what went astray."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from testbed.bench.crossbar import Crossbar
from testbed.bench.multi_switch_change import PlannedChange
from testbed.bench.orphaned_circuits import OrphanedCircuits
from testbed.bench.ownership import CrossPairs
from testbed.record.journal import Journal


class CircuitUndo:
    """The one entry of a journal that brings the ports of some switches back to their start.

    It is on the disk before the first move, and knows before each further one what that will make.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._entry: int | None = None
        self._made: dict[str, CrossPairs] = {}

    @property
    def is_open(self) -> bool:
        """Tell whether something is still to be brought back."""
        return self._entry is not None

    def cover(self, moves: Sequence[PlannedChange]) -> None:
        """Promise to take back what planned moves will make besides what was made before."""
        made = {
            move.crossbar.name: self._made.get(move.crossbar.name, frozenset())
            | move.change.adds.items()
            for move in moves
        }
        if self._entry is None:
            crossbars = [move.crossbar for move in moves]
            start = {one.name: sorted(one.start.items()) for one in crossbars}
            ports = {one.name: sorted(one.ports) for one in crossbars}
            self._entry = self._journal.promise(
                "circuits", start=start, ports=ports, made=_listed(made)
            )
            self._hear(crossbars)
        elif made != self._made:
            self._journal.amend(self._entry, made=_listed(made))
        self._made = made

    def settle(self) -> None:
        """Write that nothing is to be brought back any more; harmless when nothing was."""
        if self._entry is not None:
            self._journal.settle(self._entry)
            self._entry, self._made = None, {}

    def adopt_undo(
        self, entry: Mapping[str, Any], left: Sequence[OrphanedCircuits], alone: Collection[str]
    ) -> None:
        """Go on with what a run that is over has promised, on those switches that are open.

        Nobody else can have used those `alone` since.
        """
        self._entry = entry["id"]
        self._made = {name: _pairs(entry["made"].get(name, ())) for name in entry["ports"]}
        for crossbar in left:
            name = crossbar.name
            start = dict(_pairs(entry["start"][name]))
            crossbar.adopt_undo(start, self._made[name], alone=name in alone)
        self._hear(left)

    def _hear(self, crossbars: Iterable[Crossbar]) -> None:
        for crossbar in crossbars:
            crossbar.on_unrequested(self._add)

    def _add(self, switch: str, astray: CrossPairs) -> None:
        """Promise to take back what a switch made of our light without being asked for it."""
        known = self._made.get(switch, frozenset())
        if self._entry is not None and not astray <= known:
            made = {**self._made, switch: known | astray}
            lost = f"nobody will know that {switch} made {sorted(astray)} of our light"
            self._journal.amend(self._entry, consequence=lost, made=_listed(made))
            self._made = made


def _pairs(listed: Iterable[Iterable[int]]) -> CrossPairs:
    return frozenset((ingress, egress) for ingress, egress in listed)


def _listed(made: Mapping[str, CrossPairs]) -> dict[str, list[tuple[int, int]]]:
    return {name: sorted(cross) for name, cross in made.items()}
