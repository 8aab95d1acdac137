"""The mesh that the options of a lab file describe, for the driver and for the far end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from testbed.fabric import mesh_map
from testbed.fabric.mesh import Gate, Mesh, Setting, hexagonal
from testbed.fabric.mesh_switch import MeshSwitch
from testbed.files import parse_json, read_file
from testbed_drivers.switches.descriptors.photonic_mesh import LARGEST_FILE, PhotonicMeshOptions


def described_mesh(options: PhotonicMeshOptions) -> Mesh:
    """Return the mesh of some options, with the settings that were computed for it before.

    Light is traced through each of these. Raise ValueError for ports or cells that it lacks, and
    for a file that is not what it should be.
    """
    mesh = (
        _of_file(options)
        if options.file
        else hexagonal(options.width, options.height, options.ingress, options.egress, options.bidi)
    )
    index = {number: place for place, number in enumerate(numbers_of(mesh))}
    bar, cross = set(options.stuck_bar), set(options.stuck_cross)
    if outside := sorted((bar | cross) - index.keys()):
        least, last = min(index), max(index)
        raise ValueError(
            f"the cells are numbered {least} to {last}, so {outside[0]} cannot be stuck"
        )
    if both := sorted(bar & cross):
        raise ValueError(f"cell {both[0]} cannot be stuck in bar and in cross")
    told = {**dict.fromkeys(sorted(bar), Gate.BAR), **dict.fromkeys(sorted(cross), Gate.CROSS)}
    stuck = {**mesh.stuck, **{index[number]: gate for number, gate in told.items()}}
    possible = {
        circuits: setting for circuits, setting in mesh.known.items() if _obeys(setting, stuck)
    }
    return replace(mesh, stuck=stuck, known=possible)


def numbers_of(mesh: Mesh) -> Iterable[int]:
    """Return what the device calls each cell, in order."""
    return mesh.numbers or range(len(mesh.cells))


def _of_file(options: PhotonicMeshOptions) -> Mesh:
    name = options.file
    if options.ingress or options.egress or options.bidi:
        raise ValueError(f"{name} has the ports of the mesh: remove 'ingress', 'egress' and 'bidi'")
    try:
        value: Any = parse_json(read_file(Path(name), LARGEST_FILE, follow=True))
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{name} is no JSON: {error}") from error
    try:
        mesh = _of_json(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    if not mesh.ports:
        raise ValueError(f"{name} must have ports: 'bidi', or 'ingress' and 'egress'")
    return mesh


def _of_json(value: Any) -> Mesh:
    if not isinstance(value, Mapping) or "mesh_switch" not in value:
        return mesh_map.from_json(value)
    switch = MeshSwitch.from_json(value)
    known = {frozenset(one.circuits.items()): one.setting for one in switch.matchings}
    return replace(switch.mesh, known=known)


def _obeys(setting: Setting, stuck: Mapping[int, Gate]) -> bool:
    return all(setting[cell] is gate for cell, gate in stuck.items())
