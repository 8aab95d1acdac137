"""The map of a photonic mesh as plain data: the place of each cell, by the device's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from testbed.fabric.mesh import Gate, Joint, Mesh, of_sides, with_ports

FORMAT = 1

_FARTHEST = 10_000
"""Columns, rows and numbers of cells beyond which no device goes."""
_KEYS = {"cell_map", "cells", "bidi", "ingress", "egress"}
_CELL_KEYS = {"cell", "hexagon", "side", "stuck", "loss"}


def to_json(mesh: Mesh) -> dict[str, Any]:
    """Return the map of a mesh, with its ports, stuck cells and losses, in its public format."""
    sides = {"bidi": mesh.ingress}
    if not mesh.reciprocal:
        sides = {"ingress": mesh.ingress, "egress": mesh.egress}
    ports = {name: [list(joint) for joint in joints] for name, joints in sides.items() if joints}
    cells = [_cell_to_json(mesh, index) for index in range(len(mesh.cells))]
    return {"cell_map": FORMAT, "cells": cells, **ports}


def from_json(value: Any) -> Mesh:
    """Return the mesh that a map describes, with ports if the map names any.

    Raise ValueError with the mistake for an invalid map.
    """
    if not isinstance(value, Mapping) or value.get("cell_map") != FORMAT:
        raise ValueError(f"it is not a map of cells of format {FORMAT}")
    _check_keys(value, _KEYS, "a map of cells")
    entries = value.get("cells")
    if not isinstance(entries, list) or not entries:
        raise ValueError("a map of cells lists its cells")
    sides = {}
    for entry in entries:
        number, side = _side(entry)
        if number in sides:
            raise ValueError(f"cell {number} is listed twice")
        sides[number] = side
    ordered = sorted(entries, key=lambda entry: entry["cell"])
    mesh = replace(of_sides(sides), stuck=_stuck(ordered), losses=_losses(ordered))
    ports = {
        name: _rim(mesh, value[name], name) for name in _KEYS & value.keys() - {"cell_map", "cells"}
    }
    return with_ports(mesh, **ports) if ports else mesh


def _cell_to_json(mesh: Mesh, index: int) -> dict[str, Any]:
    column, row, corner = mesh.cells[index].joints[0]
    number = mesh.numbers[index] if mesh.numbers else index
    entry: dict[str, Any] = {"cell": number, "hexagon": [column, row], "side": corner}
    if index in mesh.stuck:
        entry["stuck"] = mesh.stuck[index].value
    if mesh.losses:
        entry["loss"] = list(mesh.losses[index])
    return entry


def _side(entry: Any) -> tuple[int, tuple[int, int, int]]:
    if not isinstance(entry, Mapping):
        raise ValueError(f"a cell is an object with cell, hexagon and side, not {entry!r:.40}")
    _check_keys(entry, _CELL_KEYS, "a cell")
    number: Any = entry.get("cell")
    hexagon: Any = entry.get("hexagon")
    side: Any = entry.get("side")
    if not _is_whole(number) or number < 0:
        raise ValueError(f"a cell has a number from 0 to {_FARTHEST}, not {number!r:.40}")
    if not _are_whole([side], 1) or not _are_whole(hexagon, 2):
        raise ValueError(f"cell {number} needs a hexagon, as [column, row], and a side from 0 to 5")
    return number, (hexagon[0], hexagon[1], side)


def _stuck(entries: Sequence[Mapping[str, Any]]) -> dict[int, Gate]:
    found = {}
    for index, entry in enumerate(entries):
        if "stuck" in entry:
            try:
                found[index] = Gate(entry["stuck"])
            except ValueError:
                raise ValueError(
                    f"cell {entry['cell']} is stuck in '=' or 'x', not {entry['stuck']!r:.40}"
                ) from None
    return found


def _losses(entries: Sequence[Mapping[str, Any]]) -> tuple[tuple[float, float], ...]:
    known = [entry for entry in entries if "loss" in entry]
    if known and len(known) < len(entries):
        missing = next(entry["cell"] for entry in entries if "loss" not in entry)
        raise ValueError(f"cell {missing} lacks a loss, which other cells have")
    return tuple(_loss(entry) for entry in known)


def _loss(entry: Mapping[str, Any]) -> tuple[float, float]:
    loss = entry["loss"]
    if not isinstance(loss, list) or len(loss) != 2 or not all(map(_is_loss, loss)):
        raise ValueError(
            f"cell {entry['cell']} must have a loss for bar and one for cross, in dB from 0 to 100"
        )
    return float(loss[0]), float(loss[1])


def _rim(mesh: Mesh, joints: Any, name: str) -> list[int]:
    """Return ports as they are numbered around the mesh."""
    if not isinstance(joints, list) or not all(_are_whole(joint, 3) for joint in joints):
        raise ValueError(f"{name} lists ports as [column, row, corner]")
    numbers = {joint: number for number, joint in enumerate(mesh.rim)}
    for joint in joints:
        if Joint(*joint) not in numbers:
            raise ValueError(f"{name}: there is no external port at {joint}")
    return [numbers[Joint(*joint)] for joint in joints]


def _check_keys(value: Mapping[Any, Any], known: set[str], what: str) -> None:
    if unknown := sorted(map(str, value.keys() - known)):
        raise ValueError(f"{what} has no key {unknown[0]!r:.40}")


def _is_whole(value: Any) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number and abs(value) <= _FARTHEST


def _are_whole(values: Any, count: int) -> bool:
    return isinstance(values, list) and len(values) == count and all(map(_is_whole, values))


def _is_loss(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 100
