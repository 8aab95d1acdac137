"""Find the cells of a mesh that may be stuck, from where light came out under known settings.

One cell is taken to be stuck: with it, light of every port must come out where it was seen to. What
is seen may be the circuits that carry data, so a port whose light was lost has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from testbed.fabric.mesh import Gate, Mesh, Path, Setting

Pairs = frozenset[tuple[int, int]]
"""Circuits as pairs of ingress and egress."""


class Seen(NamedTuple):
    """The setting that was sent, and the circuits that light made, ingress to egress."""

    setting: Setting
    circuits: Mapping[int, int]


class StuckCell(NamedTuple):
    """A cell, by its place in the mesh, and the state that it does not leave."""

    cell: int
    gate: Gate


@dataclass(frozen=True, slots=True)
class View:
    """What hosts can see of the light: of which ingress ports, at which egress ports.

    A port may need light to send: that it is not heard without any says nothing.
    """

    visible: Pairs
    """The circuits that are seen where they are; between ports of one host none is."""
    back: Mapping[int, int | None]
    """The egress where the port that sends into each ingress receives; None: it always sends."""

    def expected(self, circuits: Mapping[int, int]) -> Expected:
        """Return what must and what may be seen of the circuits that light makes."""
        lit = {None, *(egress for ingress, egress in circuits.items() if ingress in self.back)}
        may = frozenset(pair for pair in circuits.items() if pair in self.visible)
        return Expected(frozenset(pair for pair in may if self.back[pair[0]] in lit), may)


class Expected(NamedTuple):
    """The circuits that must be seen, and all that may be."""

    must: Pairs
    may: Pairs

    def agrees(self, seen: Mapping[int, int]) -> bool:
        """Tell whether what was seen is what was expected."""
        return self.must <= (pairs := frozenset(seen.items())) and pairs <= self.may


class CellSearch:
    """The search for one stuck cell, by what was seen under one setting after the other.

    `suspects` are the ways to be stuck that agree with all that was seen. While cells all moved as
    they should, for all that was seen, these are the ways that would not have shown yet.
    """

    def __init__(self, mesh: Mesh, view: View | None = None) -> None:
        self._mesh = mesh
        self._view = view or _whole_view(mesh)
        ways = (StuckCell(cell, gate) for cell in range(len(mesh.cells)) for gate in Gate)
        self.suspects = [way for way in ways if way.cell not in mesh.stuck]
        self.ways = len(self.suspects)
        """In how many ways one cell may be stuck, besides those that are known to be."""
        self.all_move = True
        """Whether all that was seen is as it should be."""

    def look(self, seen: Seen) -> None:
        """Drop the suspects that what was seen rules out."""
        should, others = self._expectations(seen.setting)
        self.all_move = self.all_move and should.agrees(seen.circuits)
        self.suspects = [
            one for one in self.suspects if others.get(one, should).agrees(seen.circuits)
        ]

    def explains(self, seen: Seen) -> bool:
        """Tell whether what was seen leaves a suspect, or that all cells move."""
        should, others = self._expectations(seen.setting)
        if self.all_move and should.agrees(seen.circuits):
            return True
        return any(others.get(one, should).agrees(seen.circuits) for one in self.suspects)

    def should_be_seen(self, setting: Setting) -> Pairs:
        """Return the circuits that are seen under a setting when all cells move."""
        return self._expectations(setting)[0].must

    def left(self, setting: Setting) -> int:
        """Return how many possibilities a look at a setting leaves at worst.

        All cells moving is one of them, while that is possible.
        """
        should, others = self._expectations(setting)
        sizes = Counter(others.get(one, should) for one in self.suspects)
        if self.all_move:
            sizes[should] += 1
        return max(sizes.values(), default=0)

    def _expectations(self, setting: Setting) -> tuple[Expected, dict[StuckCell, Expected]]:
        """Return what is seen when all cells move, and with each suspect that changes any path."""
        paths = {port: self._mesh.path(port, setting) for port in self._view.back}
        passing: dict[int, list[int]] = {}
        for port, path in paths.items():
            for step in path.steps:
                passing.setdefault(step.cell, []).append(port)
        found = {}
        for one in self.suspects:
            if one.cell in passing and setting[one.cell] is not one.gate:
                stuck = with_stuck(setting, one)
                changed = {port: self._mesh.path(port, stuck) for port in passing[one.cell]}
                found[one] = self._expected({**paths, **changed})
        return self._expected(paths), found

    def _expected(self, paths: Mapping[int, Path]) -> Expected:
        numbers = {joint: number for number, joint in self._mesh.ports.items()}
        return self._view.expected(
            {port: numbers[path.end] for port, path in paths.items() if path.end in numbers}
        )


def stuck_cells(mesh: Mesh, seen: Sequence[Seen], view: View | None = None) -> list[StuckCell]:
    """Return each cell that explains all that was seen if it alone is stuck; several may do.

    Without a `view` all circuits are seen. Nothing is returned where no single cell does, nor where
    all settings did as they should.
    """
    search = CellSearch(mesh, view)
    for one in seen:
        search.look(one)
    return [] if search.all_move else search.suspects


def with_stuck(setting: Setting, stuck: StuckCell) -> Setting:
    """Return how the cells stand when a setting is sent and one of them does not move."""
    return (*setting[: stuck.cell], stuck.gate, *setting[stuck.cell + 1 :])


def _whole_view(mesh: Mesh) -> View:
    """Return the view of one who sees the light of every ingress at every egress, lit or not."""
    inputs = range(1, len(mesh.ingress) + 1)
    outputs: Iterable[int] = inputs if mesh.reciprocal else set(mesh.ports) - set(inputs)
    visible = frozenset((i, e) for i in inputs for e in outputs if not mesh.reciprocal or e > i)
    return View(visible, dict.fromkeys(inputs))
