"""The waveguides of a photonic mesh as a graph of integers, for fast searches.

A lane is a joint in one direction: lane 2j leads from joint j into the first of its cells, lane 2j
+ 1 into the second, or out of the mesh. From a lane, light goes on to one lane for each gate state
of the cell. Two routes are possible together exactly when they share no joint: an arm in bar and an
arm in cross of one cell always have a joint in common.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from testbed.fabric.mesh import Gate, Joint, Mesh

Lanes = tuple[int, ...]
"""A route: the lanes that light takes, from the one at its port on to the one that leaves."""

_KEPT = 4
"""Graphs of the same cells that are kept: draws of stuck cells make one each."""

_ARMS = ((Gate.BAR, 0, 1), (Gate.BAR, 2, 3), (Gate.CROSS, 0, 2), (Gate.CROSS, 1, 3))
"""Which joints of a cell are joined by each gate, by their place in the cell."""


class Arm(NamedTuple):
    """One light path through a cell, usable in either direction: the joints at its ends."""

    cell: int
    gate: Gate
    one: int
    other: int
    loss: float


@dataclass(frozen=True)
class Graph:
    """The numbered joints and lanes of a mesh, and the loss of each arm in dB or in cells."""

    joints: tuple[Joint, ...]
    number: Mapping[Joint, int]
    arms: tuple[Arm, ...]
    ends: tuple[tuple[tuple[int, int], tuple[int, int]], ...]
    """For each arm, its lanes in and out, one way and the other."""
    onward: tuple[tuple[tuple[int, float], ...], ...]
    """For each lane, the lanes that follow and the loss on the way there."""
    mean_loss: float
    _distances: dict[frozenset[int], Sequence[float]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def of(cls, mesh: Mesh) -> Graph:
        """Return the graph of a mesh without the arms that stuck cells exclude.

        Meshes with the same cells, stuck and lossy alike, have the same one, with the distances
        that were asked for: a change of a mesh of thousands of cells would compute them all anew.
        """
        key, known = (frozenset(mesh.stuck.items()), mesh.losses), mesh.cells.graphs
        graph: Graph | None = known.get(key)
        if graph is None:
            graph = cls._made(mesh)
            if len(known) == _KEPT:
                known.pop(next(iter(known)), None)
            known[key] = graph
        return graph

    @classmethod
    def _made(cls, mesh: Mesh) -> Graph:
        number: dict[Joint, int] = {}
        cells_at: list[list[int]] = []
        for index, cell in enumerate(mesh.cells):
            for joint in cell.joints:
                place = number.setdefault(joint, len(number))
                if place == len(cells_at):
                    cells_at.append([])
                cells_at[place].append(index)
        arms = tuple(_arms(mesh, number))
        ends = tuple(_ends(arm, cells_at) for arm in arms)
        onward: list[list[tuple[int, float]]] = [[] for _ in range(2 * len(number))]
        for arm, ways in zip(arms, ends, strict=True):
            for before, after in ways:
                onward[before].append((after, arm.loss))
        mean = sum(arm.loss for arm in arms) / len(arms)
        return cls(tuple(number), number, arms, ends, tuple(map(tuple, onward)), mean or 1.0)

    def distances(self, goals: frozenset[int]) -> Sequence[float]:
        """Return for each lane the least loss until light leaves at one of the goal joints.

        The loss counts from where the lane enters the next cell; it is infinite where no path
        exists.
        """
        if goals not in self._distances:
            self._distances[goals] = self._searched(goals)
        return self._distances[goals]

    def _searched(self, goals: frozenset[int]) -> list[float]:
        found = [math.inf] * len(self.onward)
        waiting = [(0.0, 2 * goal + 1) for goal in goals]
        heapify(waiting)
        for _, lane in waiting:
            found[lane] = 0.0
        while waiting:
            loss, lane = heappop(waiting)
            if loss > found[lane]:
                continue
            # Light goes both ways: what leads to a lane is what follows the same lane reversed.
            for back, step in self.onward[lane ^ 1]:
                if loss + step < found[back ^ 1]:
                    found[back ^ 1] = loss + step
                    heappush(waiting, (loss + step, back ^ 1))
        return found

    def loss_of(self, lanes: Sequence[int]) -> float:
        """Return the loss of a route."""
        pairs = pairwise(lanes)
        return sum(dict(self.onward[before])[after] for before, after in pairs)

    def gates(self, routes: Iterable[Sequence[int]]) -> dict[int, Gate]:
        """Return the gate state of every cell on the routes."""
        through = {way: arm for arm, ways in zip(self.arms, self.ends, strict=True) for way in ways}
        found = {}
        for lanes in routes:
            for way in pairwise(lanes):
                found[through[way].cell] = through[way].gate
        return found


def _arms(mesh: Mesh, number: Mapping[Joint, int]) -> Iterable[Arm]:
    for index, cell in enumerate(mesh.cells):
        bar, cross = mesh.losses[index] if mesh.losses else (1.0, 1.0)
        for gate, one, other in _ARMS:
            if mesh.stuck.get(index, gate) is gate:
                loss = bar if gate is Gate.BAR else cross
                yield Arm(index, gate, number[cell.joints[one]], number[cell.joints[other]], loss)


def _ends(arm: Arm, cells_at: Sequence[Sequence[int]]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the lanes into and out of the cell of an arm, one way and the other."""
    one = 2 * arm.one + cells_at[arm.one].index(arm.cell)
    other = 2 * arm.other + cells_at[arm.other].index(arm.cell)
    return (one, other ^ 1), (other, one ^ 1)
