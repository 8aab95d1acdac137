"""The orchestrator's side of the job `all-to-all`: its time slots, and what one carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.analysis.metric_definitions import size_name
from testbed.collectives.cost import Links
from testbed.collectives.repointing import Joint, joint, ring_joints
from testbed.fabric.matchings import round_robin
from testbed.jobs.contracts import Job
from testbed.jobs.time_slot_descriptors import AllToAllOptions

GUARD = 10e-3
"""Seconds before the end of a slot in which ranks send nothing more: they hear a little late that
its circuits are lit, and TCP repeats what a change of circuits has cut off only 200 ms later."""


class AllToAll(Job):
    """All-to-all of all sizes, over the first port of each host.

    The matchings in which all ranks meet have a time slot each, which all last as long. The ranks
    begin on a ring, in which they connect and probe their links.
    """

    controllers = ("rotate",)

    def __init__(self, options: AllToAllOptions) -> None:
        self._options = options
        self.ranks = ranks = options.ranks
        rounds = round_robin(ranks + ranks % 2)
        self._slots = [[pair for pair in pairs if pair[1] < ranks] for pairs in rounds]
        hold = f"{options.hold * 1e9:.0f} ns"
        table = [{"links": list(map(list, pairs)), "hold": hold} for pairs in self._slots]
        self.controller_options = {"rotate": {"slots": table}}
        slots = [frozenset(joint((a, 0), (b, 0)) for a, b in pairs) for pairs in self._slots]
        self.circuits: tuple[frozenset[Joint], ...] = (ring_joints(ranks), *slots)

    def for_rank(self) -> Mapping[str, Any]:
        """Return the sizes, and the circuits of the ring and of every slot by number."""
        options = self._options
        return {
            "kind": "all_to_all",
            "options": {
                "sizes": list(options.sizes),
                "iterations": options.iterations,
                "warmup": options.warmup,
                "circuits": {
                    "circuits": [sorted(joints) for joints in self.circuits],
                    "guard": GUARD,
                },
            },
        }

    def choices(self, links: Links) -> Mapping[str, Mapping[str, str]]:
        """Return nothing: ranks have no choice."""
        return {}

    def predict(self, links: Links, late: Mapping[int, float]) -> dict[str, float]:
        """Return the time of a cycle, and what a rank sends to a peer in a slot of theirs.

        That is what the rate of the line makes of the slot, less its dark time and the guard. There
        is nothing before the dark time was seen.
        """
        if not links.reconfiguration:
            return {}
        light = self._options.hold - links.reconfiguration - GUARD
        return {
            "cycle_time": self._options.hold * len(self._slots),
            "slot_bytes": max(0.0, light) / links.beta,
        }

    def predict_slots(self, links: Links, dark: float) -> dict[str, float]:
        """Return the dark time of a slot, and the time of an exchange that fits into its slots.

        An exchange goes on until its last slot has been dark and has carried what one rank has for
        another. It begins in the slot in which the one before it ended, and uses the rest of that
        but for the guard; so it needs as much less of its own last slot, and ends earlier by that.
        """
        values, hold = {"slot_dark": dark}, self._options.hold
        for size in self._options.sizes:
            last = dark + size * links.beta + GUARD
            if last <= hold:
                values[f"time_{size_name(size)}"] = (len(self._slots) - 1) * hold + last
        return values
