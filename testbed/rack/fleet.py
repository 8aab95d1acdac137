"""Clusters of racks under seeded traces of slices that come and go; all results are a `model`.

The mixes of slices have names and are not tuned. The effect of fragmentation depends mostly on the
mix, so every figure states its mix.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from testbed.rack.contiguous import contiguous
from testbed.rack.slices import Occupancy, Slice, empty, with_slice, without_slice
from testbed.rack.torus import Shape, Torus

Mix = Mapping[Shape, float]
"""How often slices of each shape are asked for."""

S4, S8, S16, S32, S64 = (2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4), (4, 4, 4)

MIXES: Mapping[str, Mix] = {
    "equal-requests": {S4: 1, S8: 1, S16: 1, S32: 1},
    "equal-chips": {S4: 8, S8: 4, S16: 2, S32: 1},
    "with-whole-racks": {S4: 1, S8: 1, S16: 1, S32: 1, S64: 1},
}


@dataclass
class Cluster:
    """Racks and the slices in each."""

    torus: Torus
    racks: list[Occupancy]
    slices: list[tuple[int, Slice]]


def filled(torus: Torus, racks: int, mix: Mix, rng: random.Random) -> Cluster:
    """Return racks filled with contiguous slices: requests of a mix, each in the first free block.

    A request without a free block is dropped; filling ends when a request for a single server is.
    """
    cluster = Cluster(torus, [empty(torus)] * racks, [])
    shapes, weights = zip(*mix.items(), strict=True)
    smallest = min(shapes)
    while True:
        shape = rng.choices(shapes, weights)[0]
        found = next(
            (
                (rack, slice_)
                for rack, state in enumerate(cluster.racks)
                if (slice_ := contiguous(torus, state, shape))
            ),
            None,
        )
        if found is not None:
            rack, slice_ = found
            cluster.racks[rack] = with_slice(torus, cluster.racks[rack], slice_)
            cluster.slices.append(found)
        elif shape == smallest:
            return cluster


def thinned(cluster: Cluster, share: float, rng: random.Random) -> Cluster:
    """Return the racks after a random share of their slices has been removed."""
    gone = set(rng.sample(range(len(cluster.slices)), round(share * len(cluster.slices))))
    racks = list(cluster.racks)
    for number in gone:
        rack, slice_ = cluster.slices[number]
        racks[rack] = without_slice(cluster.torus, racks[rack], slice_)
    kept = [each for number, each in enumerate(cluster.slices) if number not in gone]
    return Cluster(cluster.torus, racks, kept)


def requests(mix: Mix, chips: int, rng: random.Random) -> list[Shape]:
    """Return requests drawn from a mix until the rest of `chips` is too small for the next one."""
    shapes, weights = zip(*mix.items(), strict=True)
    drawn: list[Shape] = []
    while True:
        shape = rng.choices(shapes, weights)[0]
        x, y, z = shape
        chips -= x * y * z
        if chips < 0:
            return drawn
        drawn.append(shape)
