"""Choose an AllReduce by the cost model, from the arrivals at the latest collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.analysis.clocks import Instant
from testbed.analysis.straggler import Straggler, find_straggler
from testbed.collectives.catalogue import candidates
from testbed.collectives.cost import Links, cost
from testbed.collectives.schedule import Schedule

WINDOW = 5
"""Collectives that are looked at. With eight ranks, the same rank must be last in four of them."""

CONFIDENT = 0.95
"""Confidence from which on a straggler counts as persistent."""

WORTH = 0.05
"""Share of a collective's time that a change must save: the model itself is no closer than that."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An AllReduce, and the reason for choosing it."""

    schedule: Schedule
    straggler: Straggler | None
    expected: Mapping[str, float]
    """By algorithm, seconds from when all ranks but the last to come are ready."""
    present: float
    """The same of the schedule that was in use."""

    @property
    def gain(self) -> float:
        """Return the share of a collective's time that the choice saves."""
        return 1 - self.expected[self.schedule.name] / self.present

    @property
    def because(self) -> str:
        """Return the reason for the choice as text."""
        if self.straggler is None:
            return "no rank comes last persistently"
        return f"rank {self.straggler.rank} comes {self.straggler.gap:.3f} s after the others"

    def predict(self, step: float) -> dict[str, float]:
        """Return the predicted metrics; a step took `step` seconds before the change."""
        share = self.present / step
        return {
            "communication_share": share,
            "collective_gain": self.gain,
            "step_gain": share * self.gain,
            "straggling_step_time": step * (1 - share * self.gain),
        }


def choose(
    arrivals: Sequence[Mapping[int, Instant]], present: Schedule, size: int, links: Links
) -> Choice:
    """Return the AllReduce with the least predicted time; `present` if about as good.

    `arrivals` are the arrivals of all ranks at the latest collectives, of `size` bytes each.
    """
    found = find_straggler(arrivals)
    straggler = found if found is not None and found.confidence >= CONFIDENT else None
    late = {} if straggler is None else {straggler.rank: straggler.gap}
    known = {s.name: s for s in candidates(present.ranks, straggler.rank if straggler else None)}
    expected = {name: cost(s, size, links, late).total for name, s in known.items()}
    now = cost(present, size, links, late).total
    best = min(expected, key=expected.__getitem__)
    if expected[best] <= (1 - WORTH) * now:
        return Choice(known[best], straggler, expected, now)
    return Choice(present, straggler, expected | {present.name: now}, now)
