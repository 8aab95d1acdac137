"""Descriptor of the job `reach`, for its entry point; importing it loads no job code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from testbed.jobs.option_checks import check_counts
from testbed.plugins import Kind
from testbed.units import Seconds

_MOST_LOADED = 1e-4
"""Seconds between two questions to the same rank: the questions themselves take half of that."""


@dataclass(frozen=True, slots=True)
class ReachOptions:
    """Who reaches whom over the circuits of one matching of all ranks after the other."""

    ranks: int
    probes: int = 100
    """Questions of each rank to each other, on every matching."""
    interval: Seconds = 0.002
    """From one question to the next to the same rank."""

    def __post_init__(self) -> None:
        """Refuse ranks that cannot all be matched, and what floods a line with questions."""
        check_counts(self, "probes")
        check_counts(self, "ranks", least=2)
        if self.ranks % 2:
            raise ValueError(f"matchings join all ranks in pairs: {self.ranks} is an odd number")
        if self.interval < _MOST_LOADED:
            raise ValueError("interval must be at least 100 us")

    def measures(self) -> Iterator[str]:
        """Yield the metrics that its trials measure."""
        yield from ("pairs_met", "matched_lost", "matched_rtt", "digest")
        yield from ("others_lost",) if self.ranks > 2 else ()


REACH = Kind(
    "who reaches whom by datagrams, on one matching of all ranks after the other",
    "testbed.jobs.reach:Reach",
    options=ReachOptions,
)
