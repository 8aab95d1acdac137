"""Files about photonic meshes: maps of their cells, and precomputed configurations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from testbed.errors import FileError
from testbed.fabric import mesh_map
from testbed.fabric.mesh import Mesh
from testbed.fabric.mesh_switch import MeshSwitch
from testbed.files import parse_json
from testbed.schema.source import read_bytes

MAX_BYTES = 8 << 20

T = TypeVar("T")


def load_cell_map(path: str | Path) -> Mesh:
    """Return the mesh that a map of cells describes.

    Raise UsageError when the file cannot be read, FileError for what is wrong in it.
    """
    return _loaded(path, mesh_map.from_json)


def load_mesh_switch(path: str | Path) -> MeshSwitch:
    """Return a precomputed mesh configuration whose hash is right and whose light was traced.

    Raise as `load_cell_map`.
    """
    return _loaded(path, MeshSwitch.from_json)


def _loaded(path: str | Path, made: Callable[[Any], T]) -> T:
    raw = read_bytes(path, MAX_BYTES)
    try:
        return made(parse_json(raw))
    except ValueError as error:
        raise FileError(f"{path}:1:1", str(error)) from error
