"""A programmable photonic mesh on paper: hexagons of waveguide with a 2×2 gate on every side.

Geometry after PipSwitch (arXiv 2501.18136) and its authors' model of their mesh. A joint is a
corner of a hexagon. The cell on the side that hexagons A and B share joins corners a and a+1 of A
with corners b and b+1 of B, where A.a touches B.b+1. In bar, light stays in its hexagon (a with
a+1, b with b+1); in cross, it changes hexagon and goes on forward (a with b, a+1 with b+1). A joint
of one cell only is an external port. With every cell set, light from any port leaves at exactly one
other, and the same way back: the state of all cells is a matching of the ports. Nothing is dark.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple


class Gate(Enum):
    """How a cell stands; the values are its letters on the wire."""

    BAR = "="
    CROSS = "x"


Setting = tuple[Gate, ...]
"""How every cell stands, by its number."""

_NEIGHBOURS = ((1, 0), (0, 1), (-1, 1), (-1, 0), (0, -1), (1, -1))
"""Where the hexagon beyond each side is, from corner 0 on, in axial coordinates."""


class Joint(NamedTuple):
    """A corner of a hexagon, which may lie outside of the mesh."""

    column: int
    row: int
    corner: int


@dataclass(frozen=True, slots=True)
class Cell:
    """A gate between two hexagons: its joints in the order A.a, A.a+1, B.b, B.b+1."""

    joints: tuple[Joint, Joint, Joint, Joint]

    def exit(self, joint: Joint, gate: Gate) -> Joint:
        """Return the joint where light leaves that enters at `joint`."""
        return self.joints[self.joints.index(joint) ^ (1 if gate is Gate.BAR else 2)]


class Step(NamedTuple):
    """One cell on a path of light: its number, where light enters it, how it stands."""

    cell: int
    entry: Joint
    gate: Gate


class Path(NamedTuple):
    """The way of light from one port to another."""

    steps: tuple[Step, ...]
    end: Joint


@dataclass(frozen=True)
class Mesh:
    """Cells, and which of their external ports light may enter and leave.

    `ingress` are the ports 1…N in this order, `egress` the ports N+1… . `setting` is how the cells
    stand as far as anybody knows; None when nobody does.
    """

    cells: tuple[Cell, ...]
    ingress: tuple[Joint, ...]
    egress: tuple[Joint, ...]
    setting: Setting | None = None

    @cached_property
    def rim(self) -> tuple[Joint, ...]:
        """Return the external ports in their order around the mesh."""
        return _rim(self.cells)

    @cached_property
    def ports(self) -> Mapping[int, Joint]:
        """Return the ports that are used, by their number."""
        return dict(enumerate(self.ingress + self.egress, start=1))

    @cached_property
    def _cells_at(self) -> Mapping[Joint, tuple[int, ...]]:
        return _cells_at(self.cells)

    def cell_at(self, joint: Joint, coming_from: int | None = None) -> int | None:
        """Return the cell that light enters at a joint; None when it leaves the mesh there."""
        others = [number for number in self._cells_at[joint] if number != coming_from]
        return others[0] if others else None

    def path(self, port: int, setting: Setting) -> Path:
        """Return the way of light that enters at a port."""
        joint = self.ports[port]
        cell = self.cell_at(joint)
        steps = []
        while cell is not None:
            steps.append(Step(cell, joint, setting[cell]))
            joint = self.cells[cell].exit(joint, setting[cell])
            cell = self.cell_at(joint, cell)
        return Path(tuple(steps), joint)

    def circuits(self, setting: Setting) -> dict[int, int]:
        """Return what a setting connects, ingress to egress."""
        first = len(self.ingress) + 1
        numbers = {joint: number for number, joint in enumerate(self.egress, start=first)}
        ends = {port: self.path(port, setting).end for port in range(1, first)}
        return {port: numbers[end] for port, end in ends.items() if end in numbers}


def hexagonal(
    width: int, height: int, ingress: Sequence[int] = (), egress: Sequence[int] = ()
) -> Mesh:
    """Return a mesh of `width` × `height` hexagons, every other row half a hexagon to the right.

    `ingress` and `egress` number external ports around the rim, from 0. Without them, as many of
    each as the shorter edge has hexagons: corners choke, so they are spread evenly over two halves
    of the rim, at most one to an outer hexagon (PipSwitch: which ports are used decides what can
    be routed). Raise ValueError for ports that do not exist or are named twice.
    """
    if min(width, height) < 1:
        raise ValueError(f"a mesh of {width} × {height} hexagons has no port")
    cells = _cells(width, height)
    rim = _rim(cells)
    if not ingress and not egress:
        ingress, egress = _spread(len(rim), min(width, height))
    named = [*ingress, *egress]
    if len(set(named)) != len(named) or not ingress or not egress:
        raise ValueError("a mesh needs ports of both sides, each of them once")
    if not 0 <= min(named) <= max(named) < len(rim):
        raise ValueError(f"its external ports are 0 to {len(rim) - 1}")
    return Mesh(cells, tuple(rim[n] for n in ingress), tuple(rim[n] for n in egress))


def _spread(rim: int, count: int) -> tuple[list[int], list[int]]:
    """Return ports of two opposite halves of the rim, one of the two that an outer hexagon has."""
    half = rim // 4
    return (
        [2 * (number * half // count) for number in range(count)],
        [2 * (half + number * half // count) for number in range(count)],
    )


def _cells(width: int, height: int) -> tuple[Cell, ...]:
    """Return one cell for every side, row by row, each hexagon's own sides from corner 0 on."""
    found: dict[frozenset[tuple[int, int]], Cell] = {}
    for row in range(height):
        for column in range(-(row // 2), width - row // 2):
            for a, (east, south) in enumerate(_NEIGHBOURS):
                beyond = (column + east, row + south)
                b = (a + 3) % 6
                cell = Cell(
                    (
                        Joint(column, row, a),
                        Joint(column, row, (a + 1) % 6),
                        Joint(*beyond, b),
                        Joint(*beyond, (b + 1) % 6),
                    )
                )
                found.setdefault(frozenset({(column, row), beyond}), cell)
    return tuple(found.values())


def _cells_at(cells: Sequence[Cell]) -> dict[Joint, tuple[int, ...]]:
    touching: dict[Joint, tuple[int, ...]] = {}
    for number, cell in enumerate(cells):
        for joint in cell.joints:
            touching[joint] = (*touching.get(joint, ()), number)
    return touching


def _rim(cells: Sequence[Cell]) -> tuple[Joint, ...]:
    """Return the joints of one cell only, around the middle of the mesh, two to a hexagon."""
    centres = [_centre(joint) for cell in cells for joint in cell.joints]
    middle_x = sum(x for x, _ in centres) / len(centres)
    middle_y = sum(y for _, y in centres) / len(centres)

    def around(joint: Joint) -> tuple[float, int]:
        x, y = _centre(joint)
        return math.atan2(y - middle_y, x - middle_x), joint.corner

    outer = (joint for joint, numbers in _cells_at(cells).items() if len(numbers) == 1)
    return tuple(sorted(outer, key=around))


def _centre(joint: Joint) -> tuple[float, float]:
    """Return where the middle of a joint's hexagon is, for a distance of √3 between hexagons."""
    return math.sqrt(3) * (joint.column + joint.row / 2), 1.5 * joint.row
