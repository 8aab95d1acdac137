"""Find the cells of a mesh that may be stuck, from where light came out under known settings.

One cell is taken to be stuck: with it, light of every port must come out where it was seen to. What
is seen may be the circuits that carry data, so a port whose light was lost has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from testbed.fabric.mesh import Gate, Mesh, Setting


class Seen(NamedTuple):
    """The setting that was sent, and the circuits that light made, ingress to egress."""

    setting: Setting
    circuits: Mapping[int, int]


class StuckCell(NamedTuple):
    """A cell, by its place in the mesh, and the state that it does not leave."""

    cell: int
    gate: Gate


def stuck_cells(mesh: Mesh, seen: Sequence[Seen]) -> list[StuckCell]:
    """Return each cell that explains all that was seen if it alone is stuck; several may do.

    Nothing is returned where no single cell does, nor where all settings did as they should.
    """
    if all(mesh.circuits(one.setting) == one.circuits for one in seen):
        return []
    return [found for found in _each(mesh) if all(_explains(mesh, found, one) for one in seen)]


def with_stuck(setting: Setting, stuck: StuckCell) -> Setting:
    """Return how the cells stand when a setting is sent and one of them does not move."""
    return (*setting[: stuck.cell], stuck.gate, *setting[stuck.cell + 1 :])


def _each(mesh: Mesh) -> Iterator[StuckCell]:
    return (StuckCell(cell, gate) for cell in range(len(mesh.cells)) for gate in Gate)


def _explains(mesh: Mesh, stuck: StuckCell, seen: Seen) -> bool:
    return mesh.circuits(with_stuck(seen.setting, stuck)) == seen.circuits
