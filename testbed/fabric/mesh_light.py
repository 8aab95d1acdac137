"""Trace light through the cells of a photonic mesh, to check the result of a router.

It shares no code with the router or with the mesh's own paths: it uses only the joints of a cell,
and the effect of bar and cross (PipSwitch, arXiv 2501.18136, section on its device model).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from testbed.fabric.mesh import Cell, Gate, Joint


@dataclass(frozen=True, slots=True)
class Ray:
    """The light from one external port: where it leaves, and the cells that it passed."""

    end: Joint
    cells: tuple[int, ...]


class Tracer:
    """Traces light through cells, for any outline of the mesh."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = cells
        self._touching: dict[Joint, list[int]] = {}
        for number, cell in enumerate(cells):
            for joint in cell.joints:
                self._touching.setdefault(joint, []).append(number)

    @property
    def external(self) -> frozenset[Joint]:
        """Return the joints that belong to one cell only."""
        return frozenset(joint for joint, cells in self._touching.items() if len(cells) == 1)

    def ray(self, joint: Joint, setting: Sequence[Gate]) -> Ray:
        """Return the ray that enters at an external port, with the state of every cell given."""
        passed: list[int] = []
        (cell,) = self._touching[joint]
        while True:
            passed.append(cell)
            joint = _across(self._cells[cell], joint, setting[cell])
            beyond = [other for other in self._touching[joint] if other != cell]
            if not beyond:
                return Ray(joint, tuple(passed))
            (cell,) = beyond

    def reach(self, joint: Joint, gates: Mapping[int, Gate]) -> frozenset[Joint]:
        """Return every port where light from one port may leave, when some cells are unknown.

        A cell that `gates` lacks may be in bar, in cross or between, and passes light both ways.
        """
        ends: set[Joint] = set()
        (first,) = self._touching[joint]
        seen = {(joint, first)}
        waiting = [(joint, first)]
        while waiting:
            entry, cell = waiting.pop()
            for gate in [gates[cell]] if cell in gates else Gate:
                out = _across(self._cells[cell], entry, gate)
                beyond = [other for other in self._touching[out] if other != cell]
                if not beyond:
                    ends.add(out)
                elif (out, beyond[0]) not in seen:
                    seen.add((out, beyond[0]))
                    waiting.append((out, beyond[0]))
        return frozenset(ends)

    def faults(
        self,
        setting: Sequence[Gate],
        joined: Iterable[tuple[Joint, Joint]],
        used: Iterable[Joint],
    ) -> list[str]:
        """Return what is wrong with a setting that should join exactly the given pairs of ports.

        Light must go both ways along one route. Every other of the `used` ports must lead to an
        unused port.
        """
        wanted = {start: end for pair in joined for start, end in (pair, pair[::-1])}
        wrong = []
        ports = set(used)
        for port in sorted(ports | wanted.keys()):
            ray = self.ray(port, setting)
            if port in wanted and ray.end != wanted[port]:
                wrong.append(
                    f"light of {_named(port)} leaves at {_named(ray.end)}, not at "
                    f"{_named(wanted[port])}"
                )
            elif port not in wanted and ray.end in ports:
                wrong.append(f"light of {_named(port)} leaves at {_named(ray.end)}, which is used")
            elif self.ray(ray.end, setting).cells != ray.cells[::-1]:
                wrong.append(f"light of {_named(port)} does not come back the way that it went")
        return wrong


def _across(cell: Cell, entry: Joint, gate: Gate) -> Joint:
    a, a1, b, b1 = cell.joints
    if gate is Gate.BAR:
        return {a: a1, a1: a, b: b1, b1: b}[entry]
    return {a: b, b: a, a1: b1, b1: a1}[entry]


def _named(joint: Joint) -> str:
    return f"corner {joint.corner} of hexagon ({joint.column}, {joint.row})"
