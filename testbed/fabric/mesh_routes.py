"""Find settings of a photonic mesh that make wanted circuits; deterministic and bounded.

Circuits are routed one after the other, each on a shortest path through cells that are free or
already stand as it needs them. When one finds no way, it is routed first the next time (rip-up).
This replaces the integer program of PipSwitch (arXiv 2501.18136); it can miss a routing that an
exact solver would find. Light of unused ingress ports is led to unused external ports: a mesh is
never dark, and what is not led away may come out where nobody asked for it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from testbed.fabric.mesh import Gate, Joint, Mesh, Path, Setting, Step

ATTEMPTS = 24
"""Orders of routing that are tried, with the kept circuits in place and once more without."""
_SHUFFLE_EVERY = 8

Demand = tuple[int, int | None]
"""An ingress port and the egress port that its light must reach; None: any unused port."""


class Blocked(ValueError):
    """No setting of the cells was found that makes the wanted circuits."""


@dataclass(frozen=True, slots=True)
class Routing:
    """How the cells must stand, the path of every ingress port's light, and what it costs."""

    setting: Setting
    paths: Mapping[int, Path]
    disturbed: Mapping[int, int]
    """Circuits that stay, but on another path: they are dark while cells change."""


def route(mesh: Mesh, wanted: Mapping[int, int]) -> Routing:
    """Return a routing of a whole matching, ingress to egress, that disturbs little.

    Circuits that are there already keep their paths where that leaves a way for the others.
    Raise Blocked when no way was found, ValueError when `wanted` is no matching of the mesh.
    """
    _check(mesh, wanted)
    kept = _kept(mesh, wanted)
    idle = range(1, len(mesh.ingress) + 1)
    new: list[Demand] = [(i, e) for i, e in sorted(wanted.items()) if i not in kept]
    new += [(i, None) for i in idle if i not in wanted]
    paths = _routed(mesh, new, kept, {})
    if paths is None and kept:
        paths = _routed(mesh, [*((i, wanted[i]) for i in kept), *new], {}, kept)
    if paths is None:
        circuits = ", ".join(f"{i}→{e}" for i, e in sorted(wanted.items()))
        raise Blocked(f"the mesh has no way found for {circuits} together")
    disturbed = {i: wanted[i] for i, path in kept.items() if paths[i] != path}
    return Routing(_setting(mesh, paths.values()), paths, disturbed)


def _check(mesh: Mesh, wanted: Mapping[int, int]) -> None:
    inputs = len(mesh.ingress)
    for ingress, egress in wanted.items():
        if not 1 <= ingress <= inputs < egress <= len(mesh.ports):
            raise ValueError(f"there is no path {ingress}→{egress}")
    if len(set(wanted.values())) != len(wanted):
        raise ValueError("two ingress ports are wanted on one egress port")


def _kept(mesh: Mesh, wanted: Mapping[int, int]) -> dict[int, Path]:
    """Return the paths of the wanted circuits that are there already."""
    if mesh.setting is None:
        return {}
    present = mesh.circuits(mesh.setting)
    return {i: mesh.path(i, mesh.setting) for i, e in sorted(wanted.items()) if present.get(i) == e}


def _routed(
    mesh: Mesh, demands: Sequence[Demand], fixed: Mapping[int, Path], usual: Mapping[int, Path]
) -> dict[int, Path] | None:
    """Return a path for every demand beside the `fixed` ones; the `usual` one where it is free."""
    order = list(demands)
    chance = random.Random(0)
    for attempt in range(1, ATTEMPTS + 1):
        board = _Board(mesh, fixed)
        failed = next((d for d in order if not board.lay(d, usual.get(d[0]))), None)
        if failed is None:
            return board.paths
        order.remove(failed)
        order.insert(0, failed)
        if attempt % _SHUFFLE_EVERY == 0:
            chance.shuffle(order)
    return None


def _setting(mesh: Mesh, paths: Iterable[Path]) -> Setting:
    """Return the setting of the paths; cells on none of them stay as they are."""
    gates = list(mesh.setting or (Gate.BAR,) * len(mesh.cells))
    for path in paths:
        for step in path.steps:
            gates[step.cell] = step.gate
    return tuple(gates)


class _Board:
    """A mesh with some paths laid: cells that stand fixed, joints that carry light."""

    def __init__(self, mesh: Mesh, fixed: Mapping[int, Path]) -> None:
        self.paths: dict[int, Path] = {}
        self._mesh = mesh
        self._gates: dict[int, Gate] = {}
        self._lit: set[Joint] = set()
        self._unused = frozenset(mesh.rim) - {*mesh.ingress, *mesh.egress}
        for ingress, path in fixed.items():
            self._take(ingress, path)

    def lay(self, demand: Demand, usual: Path | None) -> bool:
        """Lay a path for one demand; tell whether there was one."""
        ingress, egress = demand
        ends = self._unused if egress is None else {self._mesh.ports[egress]}
        path = usual if usual and self._is_free(usual) else self._shortest(ingress, ends)
        if path is None:
            return False
        self._take(ingress, path)
        return True

    def _take(self, ingress: int, path: Path) -> None:
        self.paths[ingress] = path
        self._lit |= _joints(path)
        self._gates |= {step.cell: step.gate for step in path.steps}

    def _is_free(self, path: Path) -> bool:
        return not _joints(path) & self._lit and all(
            self._gates.get(step.cell, step.gate) is step.gate for step in path.steps
        )

    def _shortest(self, ingress: int, ends: Iterable[Joint]) -> Path | None:
        """Search breadth first from a port; of equally long ways the first one found."""
        goals = frozenset(ends) - self._lit
        start = self._mesh.ports[ingress]
        first = _Reached(None, start, self._mesh.cell_at(start))
        seen = {(first.joint, first.cell)}
        waiting = deque([first])
        while waiting:
            here = waiting.popleft()
            for there in self._onward(here):
                if there.cell is None:
                    if there.joint in goals:
                        return there.path()
                elif (there.joint, there.cell) not in seen:
                    seen.add((there.joint, there.cell))
                    waiting.append(there)
        return None

    def _onward(self, here: _Reached) -> Iterator[_Reached]:
        """Yield what light reaches through the next cell, however that may still be set."""
        assert here.cell is not None
        fixed = self._gates.get(here.cell) or here.gate_of(here.cell)
        for gate in (fixed,) if fixed else Gate:
            joint = self._mesh.cells[here.cell].exit(here.joint, gate)
            if joint not in self._lit:
                yield _Reached(here, joint, self._mesh.cell_at(joint, here.cell), gate)


@dataclass(frozen=True, slots=True)
class _Reached:
    """A joint that a search came to: from where, how the cell before it stands, what is next."""

    before: _Reached | None
    joint: Joint
    cell: int | None
    gate: Gate | None = None

    def steps(self) -> Iterator[Step]:
        """Yield the way back."""
        here = self
        while here.before is not None:
            assert here.gate is not None
            assert here.before.cell is not None
            yield Step(here.before.cell, here.before.joint, here.gate)
            here = here.before

    def gate_of(self, cell: int) -> Gate | None:
        """Return how a cell stands that was passed on the way here; a path may pass it twice."""
        here = self
        while here.before is not None:
            if here.before.cell == cell:
                return here.gate
            here = here.before
        return None

    def path(self) -> Path:
        """Return the way here."""
        return Path(tuple(self.steps())[::-1], self.joint)


def _joints(path: Path) -> set[Joint]:
    return {path.end, *(step.entry for step in path.steps)}
