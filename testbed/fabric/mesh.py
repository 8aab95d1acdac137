"""The model of a programmable photonic mesh: hexagonal waveguides with 2×2 gates.

Geometry after PipSwitch (arXiv 2501.18136) and its authors' model of their mesh. A cell is the gate
on one side of a hexagon; a joint is a corner of a hexagon. The cell on the side that hexagons A and
B share joins corners a and a+1 of A with corners b and b+1 of B, where A.a touches B.b+1. In bar,
light stays in its hexagon (a with a+1, b with b+1); in cross, it changes hexagon and goes on
forward (a with b, a+1 with b+1). A joint of one cell only is an external port. With every cell set,
light from any port leaves at exactly one other, and the same way back: the state of all cells is a
matching of the ports. No port is ever dark.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, Literal, NamedTuple


class Gate(Enum):
    """The state of a cell; the values are its letters in the device's protocol."""

    BAR = "="
    CROSS = "x"


Setting = tuple[Gate, ...]
"""How every cell stands, by its number."""

Side = tuple[int, int, int]
"""A side of a hexagon: its column, its row, and the corner where the side begins."""

PortKind = Literal["bidi", "tx-rx"]
"""Whether one port of a host carries light both ways, or it has one for each direction."""

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
        """Return the joint where light that enters a cell at `joint` leaves it."""
        return self.joints[self.joints.index(joint) ^ (1 if gate is Gate.BAR else 2)]


class Cells(tuple[Cell, ...]):
    """The cells of a mesh, with what follows from their places alone and is computed once.

    That serves every mesh that is made of the same object, however its cells stand.
    """

    @cached_property
    def at(self) -> Mapping[Joint, tuple[int, ...]]:
        """Return the cells that touch each joint, by number."""
        return _cells_at(self)

    @cached_property
    def rim(self) -> tuple[Joint, ...]:
        """Return the external ports in their order around the mesh."""
        return _rim(self)

    @cached_property
    def graphs(self) -> dict[Hashable, Any]:
        """Return the graphs for searches that were made of the cells, by what else is in them."""
        return {}


class Step(NamedTuple):
    """One cell on a light path: its number, the joint where light enters, and its gate state."""

    cell: int
    entry: Joint
    gate: Gate


class Path(NamedTuple):
    """The light path from one port to another."""

    steps: tuple[Step, ...]
    end: Joint


@dataclass(frozen=True)
class Mesh:
    """Cells, and the external ports through which light may enter and leave.

    `ingress` are the ports 1…N in this order, `egress` the ports N+1… . Where both are the same,
    ports are reciprocal: a host sends and receives through one port, and one route joins a pair.
    `setting` is the gate state of the cells; None where it is not known.
    """

    cells: Cells
    ingress: tuple[Joint, ...]
    egress: tuple[Joint, ...]
    setting: Setting | None = None
    stuck: Mapping[int, Gate] = field(default_factory=dict)
    """Cells that do not move, and how they stand."""
    losses: tuple[tuple[float, float], ...] = ()
    """What each cell takes from light in bar and in cross, in dB; empty when it is not known."""
    numbers: tuple[int, ...] = ()
    """What the device calls each cell; empty when it counts from 0 as we do."""
    known: Mapping[frozenset[tuple[int, int]], Setting] = field(default_factory=dict)
    """Settings that were computed before, by the circuits that they make, ingress and egress."""

    def __post_init__(self) -> None:
        """Keep what is computed of the cells with them."""
        if not isinstance(self.cells, Cells):
            object.__setattr__(self, "cells", Cells(self.cells))

    @property
    def reciprocal(self) -> bool:
        """Tell whether light enters and leaves through the same ports."""
        return self.ingress == self.egress

    @property
    def kind(self) -> PortKind:
        """Return the kind of a host's ports: one for both directions, or one for each."""
        return "bidi" if self.reciprocal else "tx-rx"

    @property
    def rim(self) -> tuple[Joint, ...]:
        """Return the external ports in their order around the mesh."""
        return self.cells.rim

    @cached_property
    def ports(self) -> Mapping[int, Joint]:
        """Return the ports in use, by number."""
        return dict(enumerate(dict.fromkeys(self.ingress + self.egress), start=1))

    def cell_at(self, joint: Joint, coming_from: int | None = None) -> int | None:
        """Return the cell that light at a joint enters; None where it leaves the mesh."""
        others = [number for number in self.cells.at[joint] if number != coming_from]
        return others[0] if others else None

    def path(self, port: int, setting: Setting) -> Path:
        """Return the path of light that enters at a port."""
        joint = self.ports[port]
        cell = self.cell_at(joint)
        steps = []
        while cell is not None:
            steps.append(Step(cell, joint, setting[cell]))
            joint = self.cells[cell].exit(joint, setting[cell])
            cell = self.cell_at(joint, cell)
        return Path(tuple(steps), joint)

    def circuits(self, setting: Setting) -> dict[int, int]:
        """Return the circuits of a setting, ingress to egress; reciprocal ports lower to higher.

        Light that leaves by an unused external port makes no circuit.
        """
        numbers = {joint: number for number, joint in self.ports.items()}
        ends = {port: self.path(port, setting).end for port in range(1, len(self.ingress) + 1)}
        found = {port: numbers[end] for port, end in ends.items() if end in numbers}
        first = 0 if self.reciprocal else len(self.ingress)
        return {port: end for port, end in found.items() if end > max(port, first)}


def hexagonal(
    width: int,
    height: int,
    ingress: Sequence[int] = (),
    egress: Sequence[int] = (),
    bidi: Sequence[int] = (),
) -> Mesh:
    """Return a mesh of `width` × `height` hexagons, every other row half a hexagon to the right.

    `ingress` and `egress` number external ports around the rim, from 0; `bidi` does for reciprocal
    ports, in place of both. By default there are as many ingress and egress ports as the shorter
    edge has hexagons: corners limit routing, so ports are spread evenly over two halves of the rim,
    at most one to an outer hexagon (PipSwitch: which ports are used decides what can be routed).
    Raise ValueError for ports that do not exist or are named twice.
    """
    if min(width, height) < 1:
        raise ValueError(f"a mesh of {width} × {height} hexagons has no port")
    cells = Cells(_cells(width, height))
    if not ingress and not egress and not bidi:
        ingress, egress = _spread(len(cells.rim), min(width, height))
    return with_ports(Mesh(cells, (), ()), ingress, egress, bidi)


def of_sides(sides: Mapping[int, Side]) -> Mesh:
    """Return a mesh with a cell on each of the given sides, numbered as the device does.

    A side is given by the column and row of a hexagon, and the corner where the side begins; either
    of the two hexagons on a side may be given. The mesh may have any outline. No port is used yet.
    Raise ValueError where two cells are on one side.
    """
    cells: dict[frozenset[tuple[int, int]], int] = {}
    made = []
    for number, (column, row, corner) in sorted(sides.items()):
        if not 0 <= corner < 6:
            raise ValueError(f"cell {number}: a hexagon has the corners 0 to 5, not {corner}")
        cell = _cell(column, row, corner)
        other = cells.setdefault(frozenset(joint[:2] for joint in cell.joints), number)
        if other != number:
            raise ValueError(f"cells {other} and {number} are on the same side of a hexagon")
        made.append(cell)
    numbers = tuple(sorted(sides))
    counted = numbers == tuple(range(len(numbers)))
    return Mesh(Cells(made), (), (), numbers=() if counted else numbers)


def with_ports(
    mesh: Mesh,
    ingress: Sequence[int] = (),
    egress: Sequence[int] = (),
    bidi: Sequence[int] = (),
) -> Mesh:
    """Return a mesh that uses other external ports; arguments and errors as of `hexagonal`."""
    if bidi and (ingress or egress):
        raise ValueError("the ports of a mesh are all reciprocal or none is")
    named = [*(bidi or [*ingress, *egress])]
    if len(set(named)) != len(named) or not (bidi or (ingress and egress)):
        raise ValueError("a mesh needs ingress and egress ports, each named once")
    rim = mesh.rim
    if not 0 <= min(named) <= max(named) < len(rim):
        raise ValueError(f"the external ports of this mesh are numbered 0 to {len(rim) - 1}")
    sides = [tuple(rim[n] for n in side) for side in (bidi or ingress, bidi or egress)]
    return replace(mesh, ingress=sides[0], egress=sides[1], setting=None, known={})


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
            for corner in range(6):
                cell = _cell(column, row, corner)
                found.setdefault(frozenset(joint[:2] for joint in cell.joints), cell)
    return tuple(found.values())


def _cell(column: int, row: int, a: int) -> Cell:
    """Return the cell on the side of a hexagon that begins at corner `a`."""
    east, south = _NEIGHBOURS[a]
    beyond = (column + east, row + south)
    b = (a + 3) % 6
    return Cell(
        (
            Joint(column, row, a),
            Joint(column, row, (a + 1) % 6),
            Joint(*beyond, b),
            Joint(*beyond, (b + 1) % 6),
        )
    )


def _cells_at(cells: Sequence[Cell]) -> dict[Joint, tuple[int, ...]]:
    touching: dict[Joint, tuple[int, ...]] = {}
    for number, cell in enumerate(cells):
        for joint in cell.joints:
            touching[joint] = (*touching.get(joint, ()), number)
    return touching


def _rim(cells: Cells) -> tuple[Joint, ...]:
    """Return the joints of one cell only, around the middle of the mesh, two to a hexagon."""
    centres = [_centre(joint) for cell in cells for joint in cell.joints]
    middle_x = sum(x for x, _ in centres) / len(centres)
    middle_y = sum(y for _, y in centres) / len(centres)

    def around(joint: Joint) -> tuple[float, int, Joint]:
        x, y = _centre(joint)
        return math.atan2(y - middle_y, x - middle_x), joint.corner, joint

    outer = (joint for joint, numbers in cells.at.items() if len(numbers) == 1)
    return tuple(sorted(outer, key=around))


def _centre(joint: Joint) -> tuple[float, float]:
    """Return where the middle of a joint's hexagon is, for a distance of √3 between hexagons."""
    return math.sqrt(3) * (joint.column + joint.row / 2), 1.5 * joint.row
