"""The job `collective-model`: compute the time of an AllReduce by the cost model only."""

from __future__ import annotations

import math
from collections.abc import Mapping

from testbed.collectives.catalogue import all_reduce
from testbed.collectives.cost import Links, cost, critical_delay
from testbed.jobs.descriptors import CollectiveModelOptions


class CollectiveModel:
    """Compares two AllReduces of the same ranks, size and straggler by the cost model."""

    def __init__(self, options: CollectiveModelOptions) -> None:
        self._options = options

    def values(self, seed: int = 0) -> Mapping[str, float]:
        """Return the metrics of both; the critical delay is left out if there is none."""
        options = self._options
        straggler = options.ranks - 1
        ours = all_reduce(options.algorithm, options.ranks, straggler)
        other = all_reduce(options.against, options.ranks, straggler)
        links = Links(options.alpha, 8 / options.rate, options.reconfiguration)
        late = {straggler: options.delay}
        mine, theirs = (cost(schedule, options.size, links, late) for schedule in (ours, other))
        values = {
            "total_time": mine.total,
            "exposed_time": mine.exposed,
            "speedup": theirs.total / mine.total,
            "exposed_speedup": theirs.exposed / mine.exposed,
            "rounds": len(ours.rounds) - ours.early,
        }
        if ours.straggler is not None:
            critical = critical_delay(ours, other, options.size, links)
            values |= {"critical_delay": critical} if math.isfinite(critical) else {}
        return values
