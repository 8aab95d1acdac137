"""The job `collective` on a circuit switch: re-point circuits between rounds, or forward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.analysis.collectives import FORWARDED, REPOINTED
from testbed.analysis.metric_definitions import size_name
from testbed.collectives.cost import Links
from testbed.collectives.forwarding import Forwarded, forwarded
from testbed.collectives.own_pace import seconds_at_own_pace
from testbed.collectives.repointing import Joint, changes, pair_of, ring_joints, stages
from testbed.collectives.schedule import Schedule, to_json
from testbed.jobs.collective_descriptors import CollectiveOptions
from testbed.jobs.contracts import Job

Circuits = frozenset[Joint]


@dataclass(frozen=True)
class _Execution:
    """An algorithm, re-pointed or forwarded: what ranks are sent, and what it costs."""

    stages: tuple[tuple[Circuits, Mapping[str, Any]], ...]
    schedule: Schedule | Forwarded
    changes: tuple[int, ...]

    def seconds(self, size: int, links: Links, late: Mapping[int, float]) -> tuple[float, float]:
        """Return the total time, and the time since the last rank's arrival."""
        return seconds_at_own_pace(self.schedule, size, links, late, self.changes)


class CircuitCollective(Job):
    """AllReduce of all sizes, each by re-pointing circuits or by forwarding around a ring.

    Other traffic would expect them, and forwarded data uses them.
    """

    controllers = ("circuit-requests",)

    def __init__(self, options: CollectiveOptions, schedules: Mapping[str, Schedule]) -> None:
        self._options = options
        self.ranks = options.ranks
        self._ring = ring_joints(options.ranks)
        self._executions: dict[str, _Execution] = {}
        self._alternatives: dict[str, tuple[str, ...]] = {}
        """By algorithm, the names of its executions where one is to be chosen."""
        for name, schedule in schedules.items():
            self._add(name, schedule)
        used = (lit for execution in self._executions.values() for lit, _ in execution.stages)
        self.circuits: tuple[Circuits, ...] = tuple(dict.fromkeys([self._ring, *used]))

    def _add(self, name: str, schedule: Schedule) -> None:
        found = stages(schedule, self._ring)
        moves = changes(found, self._ring)
        data = tuple(
            (stage.circuits, {**to_json(stage.of(schedule)), "first": stage.first})
            for stage in found
        )
        repointed = _Execution(data, schedule, moves)
        if not moves:
            self._executions[name] = repointed
            return
        around = self._options.straggler is not None
        hops = forwarded(schedule, map(pair_of, self._ring), around_straggler=around)
        stay = _Execution(((self._ring, hops.to_json()),), hops, ())
        both = {f"{name}_{REPOINTED}": repointed, f"{name}_{FORWARDED}": stay}
        only = {"re-point": REPOINTED, "forward": FORWARDED}.get(self._options.circuits, "")
        self._executions |= {one: made for one, made in both.items() if one.endswith(only)}
        if self._options.circuits == "auto":
            self._alternatives[name] = tuple(both)

    def for_rank(self) -> Mapping[str, Any]:
        """Return the sizes, the schedules in stages and all circuits as plain data."""
        options = self._options
        return {
            "kind": "collective",
            "options": {
                "sizes": list(options.sizes),
                "schedules": {
                    name: [
                        {**data, "circuits": self.circuits.index(lit)}
                        for lit, data in execution.stages
                    ]
                    for name, execution in self._executions.items()
                },
                "iterations": options.iterations,
                "warmup": options.warmup,
                "pace": options.pace,
                "circuits": {
                    "circuits": [sorted(joints) for joints in self.circuits],
                    "tour": list(self._tour()),
                },
                "choices": {name: list(names) for name, names in self._alternatives.items()},
            },
        }

    def predict(self, links: Links, late: Mapping[int, float]) -> dict[str, float]:
        """Return the total and exposed times that the cost model predicts."""
        values = {}
        for size in self._options.sizes:
            for name, execution in self._turns(size, links).items():
                total, exposed = execution.seconds(size, links, late)
                values[f"total_{name}_{size_name(size)}"] = total
                values[f"exposed_{name}_{size_name(size)}"] = exposed
        return values

    def choices(self, links: Links) -> dict[str, dict[str, str]]:
        """Return, by algorithm and size, the execution that the model predicts to be faster."""
        return {
            name: {str(size): self._faster(names, size, links) for size in self._options.sizes}
            for name, names in self._alternatives.items()
        }

    def _turns(self, size: int, links: Links) -> dict[str, _Execution]:
        """Return what runs at one size, by the name under which it is reported."""
        alternatives = {n for names in self._alternatives.values() for n in names}
        turns = {name: one for name, one in self._executions.items() if name not in alternatives}
        for name, names in self._alternatives.items():
            turns[name] = self._executions[self._faster(names, size, links)]
        return turns

    def _faster(self, names: tuple[str, ...], size: int, links: Links) -> str:
        return min(names, key=lambda name: self._executions[name].seconds(size, links, {}))

    def _tour(self) -> Iterator[int]:
        """Yield the circuits after every change of a collective, and the ring after each."""
        for execution in self._executions.values():
            numbers = [self.circuits.index(lit) for lit, _ in execution.stages]
            if numbers != [0]:
                yield from (numbers[1:] if numbers[0] == 0 else numbers)
                yield 0
