"""Groups of ranks along the dimensions of a mesh, numbered as in torch's DeviceMesh."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from math import prod

Mesh = Mapping[str, int]
"""The dimensions of a mesh and their sizes, as `{dp: 2, pp: 2, tp: 2}`; ranks are numbered in
row-major order, so that the last dimension varies fastest."""

Group = tuple[int, ...]
"""The ranks of a group, in the order of their coordinates."""


def groups(mesh: Mesh) -> dict[str, tuple[Group, ...]]:
    """Return the groups along each dimension, by its name.

    In `{dp: 2, pp: 2, tp: 2}` the groups of `tp` are (0, 1), (2, 3), (4, 5) and (6, 7). Raise
    ValueError for a mesh without dimensions, and for a dimension without ranks.
    """
    ranks_of(mesh)
    return {dimension: groups_over(mesh, [dimension]) for dimension in mesh}


def groups_over(mesh: Mesh, dimensions: Collection[str]) -> tuple[Group, ...]:
    """Return the groups of ranks that differ in the given dimensions only, by lowest rank.

    Several dimensions make what DeviceMesh calls a flattened submesh, such as experts over data
    and tensor ranks; ranks are in the order of the mesh, whichever dimension is named first. Raise
    ValueError for a dimension that the mesh does not have, and as `groups` does.
    """
    ranks_of(mesh)
    if unknown := [name for name in dimensions if name not in mesh]:
        raise ValueError(f"{unknown[0]!r} is not one of the dimensions {', '.join(mesh)}")
    found: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    fixed = [axis for axis, name in enumerate(mesh) if name not in dimensions]
    for rank, at in enumerate(product(*map(range, mesh.values()))):
        found[tuple(at[axis] for axis in fixed)].append(rank)
    return tuple(map(tuple, found.values()))


def named(along: Mapping[str, Sequence[Group]]) -> dict[str, Group]:
    """Return the groups along all dimensions by name: those along `dp` are dp0, dp1, ..."""
    return {
        f"{dimension}{number}": ranks
        for dimension, groups_there in along.items()
        for number, ranks in enumerate(groups_there)
    }


def ranks_of(mesh: Mesh) -> int:
    """Return the number of ranks of a mesh; raise ValueError for an invalid mesh."""
    if not mesh:
        raise ValueError("a mesh has at least one dimension")
    for dimension, size in mesh.items():
        if size < 1:
            raise ValueError(f"dimension {dimension} must have at least 1 rank, not {size}")
    return prod(mesh.values())
