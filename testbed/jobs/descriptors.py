"""Descriptors of the built-in jobs, for entry points; importing them loads no job code."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from testbed.analysis.metric_definitions import size_name
from testbed.collectives.algorithms import ALL_REDUCES, COMPARED, REFERENCE, UNKNOWN, Algorithm
from testbed.fabric.topologies import RING
from testbed.jobs.option_checks import (
    check_counts,
    check_mesh,
    check_pace,
    check_pairs,
    check_rings,
    check_sizes,
)
from testbed.plugins import Kind
from testbed.schema.topology import TopologyOption
from testbed.units import TIME, BitRate, Bytes, Seconds

Collective = Literal["ring", "rhd", "direct", "stragglar", "auto"]

GroupCollective = Literal["all-reduce", "reduce-scatter", "all-gather", "chain", "all-to-all"]

_MOST_RANKS = 4096
"""Of a model: a schedule of so many has 17 million sends."""
_LONG = 1 << 20


_ON_RAILS = (
    *("iteration_time", "change_error", "over_optimum", "change_time", "control_time"),
    *("retransmitted", "dropped"),
)


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """When ranks write their state to disk, while the job goes on."""

    every: int
    """Steps from one checkpoint to the next."""
    keep: int = 2
    """How many each rank keeps: where the newest is damaged, the one before it is used."""
    directory: str = ""
    """Where, on a file system that all hosts share; without it, each host's own disk."""

    def __post_init__(self) -> None:
        """Refuse to write none, to have nothing where the newest is damaged, and relative paths."""
        check_counts(self, "every")
        check_counts(self, "keep", least=2)
        if self.directory and not self.directory.startswith("/"):
            raise ValueError(f"directory must begin with /, not {self.directory!r}")


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """Data-parallel training of a small causal language model on bytes.

    The defaults give 16.3 MiB of state: parameters and both moments of Adam, in float32.
    """

    ranks: int
    spares: int = 0
    topology: TopologyOption = RING
    collective: Collective = REFERENCE
    """What sums the gradients: the ring, which needs its neighbours only, or a schedule, which on
    circuits forwards data around the ring; with auto the one that the cost model expects to be
    fastest with the ranks that are late."""
    straggler: int | None = None
    """The rank that stragglar and direct expect last; without it, the last rank."""
    steps: int | None = None
    """End after so many steps; without it the job lives until the run ends."""
    dim: int = 192
    layers: int = 3
    heads: int = 6
    hidden: int = 512
    sequence: int = 64
    batch: int = 3
    """Sequences per rank and step."""
    learning_rate: float = 1e-3
    pace: Annotated[float | None, TIME] = None
    """How long each rank computes between two sums, what is left of it spent waiting; without it,
    as long as it takes."""
    rings: int = 1
    """With two, which go around in opposite directions, each sums half of the gradients: circuits
    carry them both ways then."""
    checkpoint: CheckpointOptions | None = None
    """Without it nothing is written to disk."""

    def __post_init__(self) -> None:
        """Refuse sizes that do not fit together."""
        check_counts(self, "ranks", "dim", "layers", "heads", "hidden", "sequence", "batch")
        check_counts(self, "spares", least=0)
        if self.steps is not None:
            check_counts(self, "steps")
        check_pace(self.pace)
        check_rings(self.rings, others=self.collective != REFERENCE)
        self._check_collective()
        if not (0 < self.learning_rate < math.inf):
            raise ValueError(
                f"learning_rate must be above 0 and finite, not {self.learning_rate:g}"
            )
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} is not divisible by {self.heads} heads")
        if self.dim // self.heads % 2:
            raise ValueError("rotary attention needs an even number of dimensions per head")

    def measures(self) -> Iterator[str]:
        """Yield the metrics that its trials measure without a fault."""
        yield from ("step_time", "steps", "loss")
        yield from ("busbw", "wire_overhead") if self.ranks > 1 else ()
        yield from ("digest",) if self.steps is not None else ()

    @property
    def controllers(self) -> tuple[str, ...]:
        """Return the kinds of the controllers that the job brings along."""
        return ("collective-choice",) if self.collective == "auto" else ()

    @property
    def predicts_step_time(self) -> bool:
        """Return whether the cost model knows what a step takes: what it computes is stated."""
        return self.pace is not None and self.ranks > 1 and self.collective != "auto"

    def _check_collective(self) -> None:
        known = ALL_REDUCES.get(self.collective, UNKNOWN)
        if not known.is_built_in and self.topology != RING:
            raise ValueError(
                f"{self.collective} takes no topology: on circuits its data goes around a ring"
            )
        if self.ranks < known.least:
            raise ValueError(f"{self.collective} takes two ranks or more, and there is only one")
        check_pairs(self.ranks, self.collective)
        if self.straggler is None:
            return
        if not known.expects_straggler:
            others = " and ".join(name for name, it in ALL_REDUCES.items() if it.expects_straggler)
            raise ValueError(f"{self.collective} takes no straggler; {others} do")
        if not 0 <= self.straggler < self.ranks:
            ranks = f"the ranks are 0 to {self.ranks - 1}"
            raise ValueError(f"the straggler {self.straggler} is not a rank: {ranks}")


@dataclass(frozen=True, slots=True)
class AllReduceOptions:
    """Repeated AllReduce of given sizes, with every sum verified."""

    ranks: int
    sizes: tuple[Bytes, ...]
    spares: int = 0
    topology: TopologyOption = RING
    iterations: int = 20
    """Timed iterations of each size."""
    warmup: int = 5
    pace: Annotated[float | None, TIME] = None
    """How long each rank computes between two of them, what is left of it spent waiting; without
    it, as long as it takes."""
    rings: int = 1
    """With two, which go around in opposite directions, each sums half of a message of 64 KiB or
    more: circuits carry it both ways then."""
    library: Literal["gloo"] | None = None
    """What sums in place of our own ring, between two ranks: with two `rings` a part of a message
    of 64 KiB or more over each of two circuits. The hosts' Python needs torch."""
    mesh: dict[str, int] | None = None
    """Sizes of the dimensions of a mesh, the last varying fastest along the ranks: the groups along
    each dimension run at once, and dimensions take turns."""
    collectives: dict[str, GroupCollective] | None = None
    """By dimension of the mesh, what its groups run instead of an AllReduce; `chain` hands the
    buffer of the first rank on to the last, as pipeline stages do."""

    def __post_init__(self) -> None:
        """Refuse sizes that do not consist of float32 values, and what gives no sample."""
        check_counts(self, "ranks", least=2)
        check_counts(self, "iterations")
        check_counts(self, "spares", "warmup", least=0)
        check_sizes(self.sizes)
        check_pace(self.pace)
        check_rings(self.rings, others=self.mesh is not None)
        if self.library is not None and (self.ranks != 2 or self.mesh is not None):
            raise ValueError(
                f"{self.library} connects all ranks with each other, and circuits join two: with "
                "it, ranks must be 2, without a mesh"
            )
        if self.mesh is not None:
            check_mesh(self.mesh, self.ranks, self.spares)
        for name in self.collectives or ():
            if name not in (self.mesh or {}):
                raise ValueError(f"{name!r} in collectives is no dimension of the mesh")

    def measures(self) -> Iterator[str]:
        """Yield the metrics that its trials measure without a fault."""
        yield from ("steps", "digest")
        mesh = self.mesh or {}
        yield from _ON_RAILS if mesh else ()
        along = [f"_along_{name}" for name, ranks in mesh.items() if ranks > 1]
        for size in map(size_name, self.sizes):
            for where in ("",) if self.mesh is None else along:
                yield from (f"{what}_{size}{where}" for what in ("time", "algbw", "busbw"))

    @property
    def libraries(self) -> tuple[str, ...]:
        """Return the names of the libraries that its ranks need."""
        return () if self.library is None else (self.library,)

    @property
    def long_sizes(self) -> tuple[int, ...]:
        """Return the sizes whose time is that of their bytes, so that the probed rate tells it."""
        return tuple(size for size in self.sizes if size >= _LONG and self.mesh is None)

    @property
    def predicted_sizes(self) -> tuple[str, ...]:
        """Return the metrics that are predicted where nothing is broken."""
        names = map(size_name, self.long_sizes)
        return tuple(f"{what}_{name}" for name in names for what in ("time", "algbw", "busbw"))


@dataclass(frozen=True, slots=True)
class CollectiveModelOptions:
    """An AllReduce computed by the cost model with its last rank late, compared with another."""

    ranks: int
    size: Bytes
    alpha: Seconds
    """Time of a message of nothing."""
    rate: BitRate
    """Of every link, each way."""
    algorithm: Algorithm = COMPARED
    against: Algorithm = REFERENCE
    """What it is compared with."""
    delay: Seconds = 0.0
    """How late the straggler is."""
    reconfiguration: Seconds = 0.0
    """What it takes to re-point the switch between rounds."""

    def __post_init__(self) -> None:
        """Refuse ranks that an algorithm cannot serve, and links that carry nothing."""
        check_counts(self, "ranks", least=2)
        if self.ranks > _MOST_RANKS:
            raise ValueError(f"ranks must be at most {_MOST_RANKS}, not {self.ranks}")
        check_pairs(self.ranks, self.algorithm, self.against)
        if not self.rate:
            raise ValueError("rate must be above 0")

    def measures(self) -> Iterator[str]:
        """Yield the metrics that the model computes."""
        yield from ("total_time", "exposed_time", "speedup", "exposed_speedup", "rounds")
        yield from ("critical_delay",) if self.algorithm == COMPARED else ()


TRAIN = Kind(
    "data-parallel training of a small causal language model, in NumPy",
    "testbed.jobs.training:Train",
    options=TrainOptions,
)
ALLREDUCE = Kind(
    "AllReduce over message sizes: algbw and busbw, every value verified",
    "testbed.jobs.training:AllReduce",
    options=AllReduceOptions,
)
COLLECTIVE_MODEL = Kind(
    "an AllReduce by the cost model beside another one; nothing is run",
    "testbed.jobs.model:CollectiveModel",
    options=CollectiveModelOptions,
    role="model",
)
