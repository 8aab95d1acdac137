"""Follow light through the cells of a photonic mesh, to check what a router claims.

Shares nothing with the router, nor with the mesh's own paths: it knows which joints a cell has, and
what bar and cross do (PipSwitch, arXiv 2501.18136, section on its device model).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from testbed.fabric.mesh import Cell, Gate, Joint


@dataclass(frozen=True, slots=True)
class Ray:
    """The light of one external port: where it leaves, and the cells that it passed on the way."""

    end: Joint
    cells: tuple[int, ...]


class Tracer:
    """Follows light through cells, whatever their outline."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = cells
        self._touching: dict[Joint, list[int]] = {}
        for number, cell in enumerate(cells):
            for joint in cell.joints:
                self._touching.setdefault(joint, []).append(number)

    @property
    def external(self) -> frozenset[Joint]:
        """Return the joints of one cell only."""
        return frozenset(joint for joint, cells in self._touching.items() if len(cells) == 1)

    def ray(self, joint: Joint, setting: Sequence[Gate]) -> Ray:
        """Return the light that enters at an external port when every cell stands."""
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
        """Return every port where light may leave that enters at one, when some cells are unknown.

        A cell that `gates` lacks may stand in bar, in cross or between, and passes light both ways.
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
        """Return what is wrong with a setting that shall join pairs of ports, and nothing else.

        Light must go both ways along one route. Every other of the `used` ports must lead to a port
        that is not used.
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
