"""A rack whose slices come and go, one after the other: a seeded trace, label `model`."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from testbed.rack.allocator import allocate
from testbed.rack.contiguous import fragmentation_index
from testbed.rack.fleet import Mix
from testbed.rack.slices import Occupancy, Slice, occupied_by
from testbed.rack.torus import Torus

_COMES = 0.6
"""How often a slice is asked for, and not given back, where there is any."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A rack after a slice was placed, was refused or has left."""

    what: Literal["placed", "refused", "left"]
    slices: tuple[Slice, ...]
    free: frozenset[int]
    """Servers without a slice, but for those that are reserved as spares."""
    fragmentation: float

    @property
    def scattered(self) -> tuple[Slice, ...]:
        """Return the slices a bundle of which passes a server that it does not end at."""
        return tuple(of for of in self.slices if any(len(path) > 2 for path in of.paths))


def history(
    torus: Torus, mix: Mix, seed: int, *, spares: frozenset[int], length: int
) -> list[Moment]:
    """Return `length` moments of a rack whose servers `spares` are reserved.

    A slice gets a free block, or else any free servers with enough fibres between them.
    """
    rng = random.Random(f"history of a rack {seed}")
    shapes, weights = zip(*mix.items(), strict=True)
    slices: tuple[Slice, ...] = ()
    moments: list[Moment] = []
    for number in range(length):
        what: Literal["placed", "refused", "left"] = "left"
        if slices and rng.random() > _COMES:
            gone = rng.randrange(len(slices))
            slices = (*slices[:gone], *slices[gone + 1 :])
        else:
            shape = rng.choices(shapes, weights)[0]
            found = allocate(torus, _without(torus, slices, spares), shape, number)
            what = "placed" if isinstance(found, Slice) else "refused"
            slices = (*slices, found) if isinstance(found, Slice) else slices
        free = _without(torus, slices, spares).free
        moments.append(Moment(what, slices, free, fragmentation_index(torus, free)))
    return moments


def _without(torus: Torus, slices: tuple[Slice, ...], spares: frozenset[int]) -> Occupancy:
    state = occupied_by(torus, slices)
    return Occupancy(state.free - spares, state.room)
