"""What passes through a rank, between ranks in threads: bit for bit as the schedule says."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.collectives.catalogue import all_reduce
from testbed.collectives.forwarding import forwarded
from testbed.onhost.communication.rank_schedule import RankSchedule
from tests.unit.collectives.execute import execute
from tests.unit.onhost.groups import open_groups


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("algorithm", ["rhd", "direct", "stragglar"])
@pytest.mark.parametrize(("ranks", "size"), [(4, 0), (4, 7), (4, 400_000), (6, 1000), (8, 5000)])
def test_forwarded_schedule_gives_the_same_values_as_the_direct_one(algorithm, ranks, size, shared):
    schedule = all_reduce(algorithm, ranks)
    hops = forwarded(schedule, [(rank, (rank + 1) % ranks) for rank in range(ranks)]).to_json()
    vectors = np.random.default_rng(size).integers(-9, 9, (ranks, size)).astype(np.float32)
    wanted = execute(schedule, vectors)

    def twice(group):
        """A second run must find nothing of the first."""
        program = RankSchedule.of(hops, group.rank)
        once = vectors[group.rank].copy()
        group.run(program, once)
        group.barrier()
        again = vectors[group.rank].copy()
        return once, again, group.run(program, again).rounds

    with open_groups(ranks, shared=shared) as groups:
        for rank, (once, again, rounds) in enumerate(groups.run(twice)):
            assert (once == wanted[rank]).all() and (again == wanted[rank]).all()
            assert max(rounds) < len(hops["rounds"])
