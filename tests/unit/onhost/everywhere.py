"""What ranks in processes do with their rows of numbers that all of them can work out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.collectives.catalogue import Algorithm, all_reduce
from testbed.collectives.schedule import Schedule, to_json
from testbed.onhost.communication.control import LeaveOrder
from testbed.onhost.communication.group import Group
from testbed.onhost.communication.rank_schedule import RankSchedule

Rows = npt.NDArray[Any]
Case = tuple[Algorithm, str, int]
"""An algorithm, the type of the elements, and how many they are."""


def rows(ranks: int, case: Case) -> Rows:
    """Return one row of numbers for each rank."""
    _, dtype, size = case
    chance = np.random.default_rng(size)
    if dtype == "int64":
        return chance.integers(-(2**59), 2**59, (ranks, size), np.int64)
    return chance.uniform(0.5, 1.5, (ranks, size)).astype(dtype)


def schedule(ranks: int, case: Case) -> Schedule:
    return all_reduce(case[0], ranks)


def on_sockets(group: Group, leave: LeaveOrder, cases: Sequence[Case]) -> list[Rows]:
    """Run every case on the lines of the group; return this rank's results."""
    found = []
    for case in cases:
        vector = rows(group.ranks, case)[group.rank].copy()
        program = RankSchedule.of(to_json(schedule(group.ranks, case)), group.rank)
        group.barrier()
        group.run(program, vector)
        found.append(vector)
    return found


def through_gloo(group: Group, leave: LeaveOrder, cases: Sequence[Case]) -> list[Rows]:
    """Run every case through gloo; the algorithm `gloo` is what it has of its own."""
    from testbed.onhost.communication.distributed import Distributed

    library = Distributed(group, "gloo", leave)
    found = []
    for case in cases:
        vector = rows(group.ranks, case)[group.rank].copy()
        library.take(vector)
        if case[0] == "gloo":
            library.all_reduce()
        else:
            library.run(RankSchedule.of(to_json(schedule(group.ranks, case)), group.rank))
        library.give(vector)
        found.append(vector)
    library.close()
    return found
