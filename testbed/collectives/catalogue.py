"""The schedules of the available AllReduce algorithms by name.

There are two forms of halving-doubling for numbers of ranks that are no power of two: `rhd` uses
3-2 elimination, as in papers, and is never slower than the fold by the cost model; the fold needs a
single port of each rank.
"""

from __future__ import annotations

from importlib import import_module
from typing import get_args

from testbed.collectives.algorithms import ALL_REDUCES
from testbed.collectives.algorithms import Algorithm as Algorithm
from testbed.collectives.schedule import Schedule

ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)


def all_reduce(algorithm: Algorithm, ranks: int, straggler: int | None = None) -> Schedule:
    """Return the schedule of an AllReduce algorithm; `straggler` is the rank expected last.

    Only `direct` and `stragglar` use it; by default it is the last rank. Raise ValueError for a
    number of ranks that the algorithm does not support.
    """
    known = ALL_REDUCES[algorithm]
    module, _, name = known.generator.partition(":")
    make = getattr(import_module(module), name)
    schedule: Schedule = make(ranks, straggler) if known.expects_straggler else make(ranks)
    return schedule


def candidates(ranks: int, straggler: int | None = None) -> tuple[Schedule, ...]:
    """Return every AllReduce for this number of ranks, to choose from by `cost`.

    The fold is left out: `rhd` takes as many rounds and no more bytes.
    """
    return tuple(all_reduce(name, ranks, straggler) for name in ALGORITHMS if _fits(name, ranks))


def _fits(algorithm: Algorithm, ranks: int) -> bool:
    known = ALL_REDUCES[algorithm]
    return known.is_candidate and ranks >= known.least and not (known.pairs_ranks and ranks % 2)
