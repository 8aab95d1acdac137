"""The orchestrator's side of the job `collective`: its schedules and predicted times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.analysis.collectives import critical, speedups
from testbed.analysis.metric_definitions import size_name
from testbed.collectives.catalogue import ALGORITHMS, all_reduce
from testbed.collectives.cost import Links, cost, most_sent
from testbed.collectives.schedule import Schedule, to_json
from testbed.fabric.topologies import Topology
from testbed.jobs.circuit_collective import CircuitCollective
from testbed.jobs.collective_descriptors import CollectiveOptions
from testbed.jobs.contracts import Job


class Collective(Job):
    """AllReduce of all sizes by several algorithms."""

    topology: Topology | None = None

    def __init__(self, options: CollectiveOptions) -> None:
        self._options = options
        self.ranks = options.ranks
        straggler = options.ranks - 1 if options.straggler is None else options.straggler
        self._schedules: dict[str, Schedule] = {
            name: all_reduce(name, options.ranks, straggler)
            for name in ALGORITHMS
            if name in options.algorithms
        }

    def on_circuits(self) -> CircuitCollective:
        """Return the job for a circuit switch, with two ports per host."""
        if self._options.libraries:
            library = self._options.libraries[0]
            raise ValueError(
                f"{library} connects every rank to all others, which needs a packet switch"
            )
        return CircuitCollective(self._options, self._schedules)

    def for_rank(self) -> Mapping[str, Any]:
        """Return the sizes and schedules as plain data; a library's AllReduce has no schedule."""
        options = self._options
        schedules = {
            name: to_json(self._schedules[name]) if name in self._schedules else None
            for name in options.algorithms
        }
        return {
            "kind": "collective",
            "options": {
                "sizes": list(options.sizes),
                "schedules": schedules,
                "library": next(iter(options.libraries), None),
                "through_library": options.executor != "sockets",
                "iterations": options.iterations,
                "warmup": options.warmup,
                "pace": options.pace,
            },
        }

    def predict(self, links: Links, late: Mapping[int, float]) -> dict[str, float]:
        """Return the metrics that the cost model predicts.

        `late` maps ranks to their delay in seconds. With delays, the critical-delay metrics are
        left out.
        """
        values = {}
        times: dict[str, tuple[float, float]] = {}
        for size in sorted(self._options.sizes):
            costs = {name: cost(s, size, links, late) for name, s in self._schedules.items()}
            times = {name: (found.total, found.exposed) for name, found in costs.items()}
            for schedule in self._schedules.values():
                sent = most_sent(schedule, size)
                values[f"sent_{schedule.name}_{size_name(size)}"] = float(sent)
            for name, (total, exposed) in times.items():
                values[f"total_{name}_{size_name(size)}"] = total
                values[f"exposed_{name}_{size_name(size)}"] = exposed
        if not late and (crossing := critical(times)):
            crossing["critical_delay"] = crossing["critical_delay_model"]
            values |= crossing
        return values | speedups(times)
