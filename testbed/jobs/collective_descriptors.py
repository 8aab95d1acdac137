"""Descriptor of the job `collective`, for its entry point; importing it loads no job code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from testbed.analysis.metric_definitions import size_name
from testbed.collectives import algorithms as registry
from testbed.collectives.algorithms import COMPARED, LIBRARIES, REFERENCE, Library
from testbed.jobs.option_checks import (
    check_counts,
    check_list,
    check_pace,
    check_pairs,
    check_sizes,
)
from testbed.plugins import Kind
from testbed.units import TIME, Bytes

Algorithm = Literal[registry.Algorithm, Library]
CircuitUse = Literal["auto", "re-point", "forward", "both"]


@dataclass(frozen=True, slots=True)
class CollectiveOptions:
    """AllReduce by several algorithms in turn on the same hosts, with every sum verified."""

    ranks: int
    sizes: tuple[Bytes, ...]
    algorithms: tuple[Algorithm, ...] = ("ring", "rhd", "direct", "stragglar")
    iterations: int = 5
    """Timed iterations of each size by each algorithm."""
    warmup: int = 1
    straggler: int | None = None
    """The rank that stragglar and direct expect last; without it, the last rank. Where it is named,
    data that is forwarded over circuits leads around it until it is there."""
    executor: Literal["sockets"] | Library = "sockets"
    """What runs the schedules; the libraries run them as point-to-point operations."""
    circuits: CircuitUse = "auto"
    """On a circuit switch, what to do where no circuit leads: re-point the switch between rounds,
    forward from rank to rank, both in turn, or whichever the model expects to be faster."""
    pace: Annotated[float | None, TIME] = None
    """How long each rank computes between two collectives, what is left of it spent waiting;
    without it, as long as it takes."""

    def __post_init__(self) -> None:
        """Refuse what gives no sample, and ranks that an algorithm cannot serve."""
        for name, least in (("ranks", 2), ("iterations", 1), ("warmup", 0)):
            check_counts(self, name, least=least)
        check_sizes(self.sizes)
        check_pace(self.pace)
        check_list("algorithms", self.algorithms)
        check_pairs(self.ranks, *self.algorithms)
        if self.straggler is not None and not 0 <= self.straggler < self.ranks:
            ranks = f"the ranks are 0 to {self.ranks - 1}"
            raise ValueError(f"the straggler {self.straggler} is not a rank: {ranks}")
        if len(self.libraries) > 1:
            raise ValueError("a job can use only one of the libraries gloo and nccl")

    def measures(self) -> Iterator[str]:
        """Yield the metrics that its trials measure, on circuits or on a packet switch."""
        yield from ("steps", "digest", "skew", "straggler", "straggler_confidence")
        yield from ("model_error", "right_choices")
        if COMPARED in self.algorithms:
            yield from _comparisons(self.algorithms)
        ours = [name for name in self.algorithms if name not in LIBRARIES]
        executions = [f"{name}_{how}" for name in ours for how in ("repointed", "forwarded")]
        for size in map(size_name, self.sizes):
            for name in (*self.algorithms, *executions):
                yield from (f"{what}_{name}_{size}" for what in _OF_ONE)
            for library in self.libraries:
                yield from (f"over_{library}_{name}_{size}" for name in ours)

    def predicts(self) -> Iterator[str]:
        """Yield the metrics that the cost model predicts: those of our own algorithms."""
        if COMPARED in self.algorithms:
            yield from _comparisons(self.algorithms)
        ours = [name for name in self.algorithms if name not in LIBRARIES]
        for size in map(size_name, self.sizes):
            for name in ours:
                yield from (f"{what}_{name}_{size}" for what in ("total", "exposed", "sent"))
                executions = (f"{name}_{how}_{size}" for how in ("repointed", "forwarded"))
                yield from (f"{what}_{one}" for one in executions for what in ("total", "exposed"))

    @property
    def libraries(self) -> tuple[str, ...]:
        """Return the names of the libraries that its ranks need."""
        named = {self.executor, *self.algorithms}
        return tuple(library for library in LIBRARIES if library in named)


_OF_ONE = ("total", "exposed", "busbw", "sent")


def _comparisons(algorithms: Sequence[str]) -> Iterator[str]:
    if REFERENCE in algorithms:
        yield from ("speedup", "exposed_speedup", "critical_delay", "critical_delay_model")
    for name in algorithms:
        if name not in (REFERENCE, COMPARED, *LIBRARIES):
            yield f"speedup_over_{name}"


COLLECTIVE = Kind(
    "AllReduce by several algorithms in turn: total and exposed time, every value verified",
    "testbed.jobs.collective:Collective",
    options=CollectiveOptions,
)
