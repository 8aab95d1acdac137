"""Every AllReduce by its name.

Halving-doubling off powers of two is there twice: `rhd` is by 3-2 elimination, as in papers, and
never slower than the fold by the cost model; that one needs a single port of each rank.
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
    """Return an AllReduce; only direct and stragglar heed who comes late, the last rank if unnamed.

    Raise ValueError for a number of ranks that the algorithm cannot serve.
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
    """Return every AllReduce that serves so many ranks, to choose from by `cost`.

    The fold is none: `rhd` takes as many rounds and no more bytes.
    """
    unfit = {"fold", "stragglar"} if ranks % 2 else {"fold"}
    fit = [name for name in ALGORITHMS if name not in unfit]
    return tuple(all_reduce(name, ranks, straggler) for name in fit) if ranks > 1 else (ring(1),)
