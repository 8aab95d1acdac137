"""The available AllReduce algorithms by name.

There are two forms of halving-doubling for numbers of ranks that are no power of two: `rhd` uses
3-2 elimination, as in papers, and is never slower than the fold by the cost model; the fold needs a
single port of each rank.
"""

from __future__ import annotations

from typing import Literal, get_args

from testbed.collectives.halving import folded_halving_doubling, halving_doubling
from testbed.collectives.rings import ring
from testbed.collectives.schedule import Schedule
from testbed.collectives.stragglar import direct, stragglar

Algorithm = Literal["ring", "rhd", "fold", "direct", "stragglar"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)


def all_reduce(algorithm: Algorithm, ranks: int, straggler: int | None = None) -> Schedule:
    """Return the schedule of an AllReduce algorithm; `straggler` is the rank expected last.

    Only `direct` and `stragglar` use it; by default it is the last rank. Raise ValueError for a
    number of ranks that the algorithm does not support.
    """
    match algorithm:
        case "ring":
            return ring(ranks)
        case "rhd":
            return halving_doubling(ranks)
        case "fold":
            return folded_halving_doubling(ranks)
        case "direct":
            return direct(ranks, straggler)
        case "stragglar":
            return stragglar(ranks, straggler)


def candidates(ranks: int, straggler: int | None = None) -> tuple[Schedule, ...]:
    """Return every AllReduce for this number of ranks, to choose from by `cost`.

    The fold is left out: `rhd` takes as many rounds and no more bytes.
    """
    unfit = {"fold", "stragglar"} if ranks % 2 else {"fold"}
    fit = [name for name in ALGORITHMS if name not in unfit]
    return tuple(all_reduce(name, ranks, straggler) for name in fit) if ranks > 1 else (ring(1),)
