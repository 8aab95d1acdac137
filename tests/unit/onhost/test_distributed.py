"""torch.distributed around a group: how ranks get out of it. What it sums is tested with S2."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

from testbed.onhost.errors import Left, PeerLost
from tests.unit.onhost.processes import in_processes

pytest.importorskip("torch", reason="gloo comes with torch: pip install '.[torch]'")


def connected(group, leave):
    from testbed.onhost.communication.distributed import Distributed

    return Distributed(group, "gloo", leave)


def leave_without_the_last(group, leave):
    library = connected(group, leave)
    if group.rank == group.ranks - 1:  # never comes
        return True
    threading.Timer(0.2, leave.give, [group.generation]).start()
    library.take(np.zeros(1 << 20, np.float32))
    with pytest.raises(Left):
        library.all_reduce()
    library.close()
    return True


def lose_the_last(group, leave):
    library = connected(group, leave)
    if group.rank == group.ranks - 1:
        threading.Timer(0.2, os._exit, [1]).start()
        return True
    library.take(np.zeros(1 << 20, np.float32))
    with pytest.raises(PeerLost):
        library.all_reduce()
    library.close()
    return True


def connect_again_and_again(group, leave):
    for number in range(3):
        library = connected(group, leave)
        vector = np.full(1000, number, np.int64)
        library.take(vector)
        library.all_reduce()
        assert (vector == number * group.ranks).all()
        library.close()
    return True


def ignore_an_order_that_is_about_an_older_generation(group, leave):
    leave.give(group.generation - 1)
    library = connected(group, leave)
    time.sleep(0.1)
    vector = np.ones(1000, np.int64)
    library.take(vector)
    library.all_reduce()
    library.close()
    return bool((vector == group.ranks).all())


@pytest.mark.parametrize(
    "job",
    [
        leave_without_the_last,
        lose_the_last,
        connect_again_and_again,
        ignore_an_order_that_is_about_an_older_generation,
    ],
)
def test_ranks_run_schedules_and_the_own_all_reduce_through_torch_distributed(job):
    assert in_processes(3, job) == [True] * 3
