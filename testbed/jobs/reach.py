"""The orchestrator's side of the job `reach`: the matchings that its ranks ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.collectives.cost import Links
from testbed.collectives.repointing import ring_joints
from testbed.fabric.matchings import round_robin
from testbed.jobs.contracts import Job
from testbed.jobs.reach_descriptors import ReachOptions


class Reach(Job):
    """Goes through all matchings of its ranks, on one port of each, from the ring and back.

    Like those of `collective`, its ranks ask for circuits, and begin and end on a ring.
    """

    controllers = ("circuit-requests",)

    def __init__(self, options: ReachOptions) -> None:
        self._options = options
        self.ranks = options.ranks
        matchings = (
            frozenset(((a, 0), (b, 0)) for a, b in matching)
            for matching in round_robin(options.ranks)
        )
        self.circuits = (ring_joints(options.ranks), *matchings)

    def choices(self, links: Links) -> Mapping[str, Mapping[str, str]]:
        """Return nothing: there is nothing to choose."""
        return {}

    def for_rank(self) -> Mapping[str, Any]:
        """Return how often to ask, and all circuits, as plain data."""
        return {
            "kind": "reach",
            "options": {
                "probes": self._options.probes,
                "interval": self._options.interval,
                "circuits": {
                    "circuits": [sorted(joints) for joints in self.circuits],
                    "tour": [*range(1, len(self.circuits)), 0],
                },
            },
        }
