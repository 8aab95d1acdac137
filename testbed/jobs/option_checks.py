"""Checks that the options of several jobs share; each raises ValueError."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.collectives.algorithms import ALL_REDUCES, UNKNOWN
from testbed.collectives.groups import ranks_of
from testbed.units import SIZE


def check_counts(options: Any, *names: str, least: int = 1) -> None:
    """Raise ValueError if one of the named options is less than `least`."""
    for name in names:
        if (count := getattr(options, name)) < least:
            raise ValueError(f"{name} must be at least {least}, not {count}")


def check_list(name: str, items: Sequence[str]) -> None:
    """Raise ValueError for a list that is empty or has an item twice."""
    if not items:
        raise ValueError(f"{name} must have at least one entry")
    for index, item in enumerate(items):
        if item in items[:index]:
            raise ValueError(f"{item} is listed twice")


def check_sizes(sizes: Sequence[int]) -> None:
    """Raise ValueError for an empty list, or a size that is no multiple of a float32's size."""
    check_list("sizes", [SIZE.format(size) for size in sizes])
    for size in sizes:
        if size < 4 or size % 4:
            raise ValueError(f"{size} bytes are not a whole number of float32 values")


def check_pairs(ranks: int, *algorithms: str) -> None:
    """Raise ValueError for an odd number of ranks if an algorithm pairs them, as StragglAR does."""
    for name in algorithms:
        if ranks % 2 and ALL_REDUCES.get(name, UNKNOWN).pairs_ranks:
            raise ValueError(f"{name} pairs its ranks, so their number must be even, not {ranks}")


def check_pace(pace: float | None) -> None:
    """Refuse a computation that takes no time."""
    if pace is not None and pace <= 0:
        raise ValueError("pace must be above 0; without it ranks compute as fast as they can")


def check_rings(rings: int, *, others: bool) -> None:
    """Refuse other than one ring or two, and two where the ranks follow `others` than a ring."""
    if rings not in (1, 2):
        raise ValueError(f"rings must be 1 or 2, one for each direction, not {rings}")
    if rings > 1 and others:
        raise ValueError("two rings take ranks that sum in a ring, not by a schedule or in a mesh")


def check_mesh(mesh: Mapping[str, int], ranks: int, spares: int) -> None:
    """Refuse a mesh of other ranks than the job has, and spares, which no group could take in."""
    for name in mesh:
        if not _DIMENSION.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a dimension: write it as 'tp'")
    if (count := ranks_of(mesh)) != ranks:
        sizes = " x ".join(map(str, mesh.values()))
        raise ValueError(f"a mesh of {sizes} has {count} ranks, and the job has {ranks}")
    if spares:
        raise ValueError(
            "ranks of a mesh without replicas cannot be restored from each other, so it has no "
            "spares"
        )


_DIMENSION = re.compile(r"[a-z][a-z0-9]*")
