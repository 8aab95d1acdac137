"""Descriptor of the job `hybrid`; importing it loads no job code."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from testbed.jobs.descriptors import CheckpointOptions
from testbed.jobs.option_checks import check_counts, check_mesh, check_pace
from testbed.plugins import Kind
from testbed.units import TIME

DIMENSIONS = {
    "dp": "replicas",
    "pp": "pipeline stages",
    "tp": "shares of each layer",
    "ep": "ranks with experts of each layer",
}
"""What is along each dimension of the mesh."""


@dataclass(frozen=True, slots=True)
class HybridPaceOptions:
    """How long a rank computes each part of a step, what is left of it spent waiting."""

    forward: Annotated[float, TIME]
    """Of one micro-batch through one pipeline stage."""
    backward: Annotated[float, TIME]
    prepare: Annotated[float | None, TIME] = None
    """Of a rank's gradients, before the replicas sum them."""
    update: Annotated[float | None, TIME] = None
    """Of the parameters, afterwards."""

    def __post_init__(self) -> None:
        """Refuse a computation that takes no time."""
        for seconds in (self.forward, self.backward, self.prepare, self.update):
            check_pace(seconds)


@dataclass(frozen=True, slots=True)
class HybridOptions:
    """Training of a small causal language model that is split over the ranks of a mesh."""

    ranks: int
    mesh: dict[str, int]
    """Sizes of `dp` (replicas), `pp` (pipeline stages), `tp` (shares of each layer) and `ep` (ranks
    with experts), the last that is named varying fastest along the ranks."""
    spares: int = 0
    """Hosts that could take the ranks of another, with state from its replicas."""
    order: Literal["gpipe", "1f1b"] = "1f1b"
    """In which order a pipeline stage computes its micro-batches."""
    micro_batches: int = 1
    """Parts of a replica's batch that go through the pipeline one after the other."""
    steps: int | None = None
    """End after so many steps; without it the job lives until the run ends."""
    dim: int = 64
    layers: int = 4
    heads: int = 4
    hidden: int = 128
    sequence: int = 32
    batch: int = 4
    """Sequences per replica and step; ranks along `ep` have their own, as replicas."""
    experts: int = 0
    """Feed-forward networks of `hidden` units in each layer, one of which a token goes to; 0 for
    one that all tokens pass."""
    learning_rate: float = 1e-3
    pace: HybridPaceOptions | None = None
    """Without it, a rank computes as long as it takes."""
    checkpoint: CheckpointOptions | None = None
    """Without it nothing is written to disk."""

    def __post_init__(self) -> None:
        """Refuse sizes that do not fit together, and a mesh that does not fit the model."""
        check_counts(self, "ranks", "micro_batches")
        check_counts(self, "dim", "layers", "heads", "hidden", "sequence", "batch")
        check_counts(self, "spares", "experts", least=0)
        if self.steps is not None:
            check_counts(self, "steps")
        has_replicas = self.mesh.get("dp", 1) > 1
        check_mesh(self.mesh, self.ranks, 0 if has_replicas else self.spares)
        for name in self.mesh:
            if name not in DIMENSIONS:
                known = ", ".join(f"{known} ({what})" for known, what in DIMENSIONS.items())
                raise ValueError(f"{name!r} is no dimension of this job; they are {known}")
        if not (0 < self.learning_rate < math.inf):
            raise ValueError(
                f"learning_rate must be above 0 and finite, not {self.learning_rate:g}"
            )
        if self.dim % (2 * self.heads):
            raise ValueError(
                f"dim {self.dim} gives {self.heads} heads no even number of channels each"
            )
        self._check_split("layers", "pp")
        self._check_split("heads", "tp")
        self._check_split("hidden", "tp")
        self._check_experts()
        if self.batch % self.micro_batches:
            raise ValueError(
                f"batch {self.batch} is not divisible by {self.micro_batches} micro_batches"
            )

    def _check_experts(self) -> None:
        if self.experts == 1:
            raise ValueError("one expert leaves a router nothing to choose: give 2 or more, or 0")
        if self.mesh.get("ep", 1) > 1 and not self.experts:
            raise ValueError(
                f"a mesh with {self.mesh['ep']} ranks along ep takes layers with experts: "
                f"give `experts`, a multiple of {self.mesh['ep']}"
            )
        self._check_split("experts", "ep")

    def _check_split(self, what: str, dimension: str) -> None:
        count, parts = getattr(self, what), self.mesh.get(dimension, 1)
        if count % parts:
            raise ValueError(
                f"{what} {count} is not divisible by {parts} {DIMENSIONS[dimension]} ({dimension})"
            )

    def measures(self) -> Iterator[str]:
        """Yield the metrics that its trials measure without a fault."""
        yield from ("step_time", "steps", "loss")
        yield from ("busbw",) if self.mesh.get("dp", 1) > 1 else ()
        yield from ("digest",) if self.steps is not None else ()
        yield from ("iteration_time", "change_time", "control_time")


HYBRID = Kind(
    "training of a small causal language model split by layers, heads, experts and data, in NumPy",
    "testbed.jobs.hybrid:Hybrid",
    options=HybridOptions,
)
