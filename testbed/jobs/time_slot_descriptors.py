"""Descriptor of the job `all-to-all`, for its entry point; importing it loads no job code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from testbed.analysis.metric_definitions import size_name
from testbed.jobs.option_checks import check_counts, check_sizes
from testbed.plugins import Kind
from testbed.units import TIME, Bytes, Seconds

SHORTEST_HOLD = 20e-3
"""Seconds; ranks stop sending 10 ms before the end of a slot."""


@dataclass(frozen=True, slots=True)
class AllToAllOptions:
    """Repeated all-to-all over circuits that follow time slots, with every value verified."""

    ranks: int
    sizes: tuple[Bytes, ...]
    """What each rank has for each of the others."""
    hold: Seconds
    """How long a time slot lasts, with the change of circuits at its beginning."""
    iterations: int = 5
    """Timed iterations of each size."""
    warmup: int = 1

    def __post_init__(self) -> None:
        """Refuse what gives no sample, two ranks, which need no slots, and slots too short."""
        check_counts(self, "ranks", least=3)
        check_counts(self, "iterations")
        check_counts(self, "warmup", least=0)
        check_sizes(self.sizes)
        if self.hold < SHORTEST_HOLD:
            shortest = TIME.format(SHORTEST_HOLD)
            raise ValueError(f"hold must be at least {shortest}, not {TIME.format(self.hold)}")

    def measures(self) -> Iterator[str]:
        """Yield the metrics that its trials measure without a fault."""
        yield from ("steps", "digest", "cycle_time", "slot_bytes", "slot_dark")
        for size in map(size_name, self.sizes):
            yield from (f"{what}_{size}" for what in ("time", "algbw", "busbw"))

    def predicts(self) -> Iterator[str]:
        """Yield the metrics that the model predicts."""
        yield from ("cycle_time", "slot_bytes", "slot_dark")
        yield from (f"time_{size_name(size)}" for size in self.sizes)


ALL_TO_ALL = Kind(
    "all-to-all over circuits that follow a table of time slots, every value verified",
    "testbed.jobs.time_slots:AllToAll",
    options=AllToAllOptions,
)
