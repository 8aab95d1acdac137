"""The job `hybrid`: the model of `train`, split by layers, heads, hidden units, experts, and data.

Ranks are those of a mesh: along `pp` the pipeline stages, along `tp` the shares of each layer,
along `dp` the replicas, which have sequences of their own and sum their gradients in each step.
Along `ep` ranks have sequences of their own, too, and each has some of the experts of each layer:
they exchange tokens, and sum the gradients of all but the experts. The loss curve is that of the
undivided model, up to the rounding of sums in another order.

A step depends on the state before it, the seed, its number and the mesh alone.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Optional

import numpy as np

from ..communication.control import Control
from ..communication.matchings import Matchings
from ..communication.mesh import Groups, MeshGroups
from ..errors import Corrupt
from .layers import Array
from .model import Model, Shape
from .operations import Operation, Operations
from .optimiser import Adam
from .pace import Paces
from .pipeline import PIPELINE, Action, Pipeline
from .split_model import PartModel, Split, cut
from .state import Numbers, State
from .text import Tokens, batch

DATA, TENSOR, EXPERTS = "dp", "tp", "ep"
"""The dimensions of the replicas, of the shares of each layer, and of its experts."""

PREPARE, UPDATE = "prepare", "update"


@dataclass(frozen=True)
class Options:
    """The mesh and the model; `batch` is sequences per replica and step.

    `groups` are, by dimension, all groups along it, and `schedules` what sums in those along `dp`
    and `tp`; `matchings` are those in which ranks along `ep` exchange. `experts` are those of each
    layer. `actions` are, by pipeline stage, what it computes, in order. `pace` is, by what a
    rank computes, how many seconds it takes: a micro-batch forward and backward, preparing the sum
    of gradients, and updating the parameters.
    """

    groups: Groups
    schedules: Mapping[str, Any]
    actions: Sequence[Sequence[Action]]
    micro_batches: int = 1
    dim: int = 64
    layers: int = 4
    heads: int = 4
    hidden: int = 128
    sequence: int = 32
    batch: int = 4
    experts: int = 0
    learning_rate: float = 1e-3
    pace: Optional[Mapping[str, Optional[float]]] = None
    matchings: Optional[Matchings] = None

    def shape(self) -> Shape:
        """Return the size of the model."""
        sizes = self.dim, self.layers, self.heads, self.hidden, self.sequence
        return Shape(*sizes, self.experts)

    def size(self, dimension: str) -> int:
        """Return the size of the mesh along a dimension, 1 where it has none of that name."""
        return len(self.groups[dimension][0]) if dimension in self.groups else 1


class Job:
    """Trains until the agent ends it; the state is the part's parameters and moments of Adam.

    All ranks have as much memory for it as the largest part takes: which one a rank has is known
    when it joins.
    """

    connects_to = "groups"

    def __init__(self, options: Mapping[str, Any], seed: int, ranks: int) -> None:
        given = self._options = Options(**options)
        self._shape = given.shape()
        self._seed = seed
        stages, shares, holders = map(given.size, (PIPELINE, TENSOR, EXPERTS))
        largest = max(
            Split(stage, stages, 0, shares, 0, holders).parameters(self._shape)
            for stage in range(stages)
        )
        self.state = State(3 * largest)
        self.loss: float | None = None

    def warm_up(self, raise_if_left: Callable[[], None]) -> None:
        """Do nothing: what a rank computes is known when it joins."""

    def run(self, mesh: MeshGroups, control: Control) -> None:
        """Train from the next step on, until the agent's last step is committed."""
        replica = Replica(self._options, self._shape, self._seed, mesh, control)
        self.state.part = replica.split.number
        if self.state.step == 0:
            replica.initialise(self.state.numbers)
        while True:
            step = self.state.step
            assert step is not None
            if control.ends_before(step):
                return
            self.loss = replica.step(step, self.state)


class Replica:
    """One rank's part of the model in one generation."""

    def __init__(
        self, options: Options, shape: Shape, seed: int, mesh: MeshGroups, control: Control
    ) -> None:
        self._options, self._shape, self._seed = options, shape, seed
        self._mesh, self._control = mesh, control
        at = {name: group.rank for name, group in mesh.by_dimension.items()}
        places = ((at.get(name, 0), options.size(name)) for name in (PIPELINE, TENSOR, EXPERTS))
        self.split = Split(*chain.from_iterable(places))
        holders = self.split.holders
        self._replica = at.get(DATA, 0) * holders + self.split.holder
        self._replicas = options.size(DATA) * holders
        self._operations = Operations(
            mesh, options.groups, options.schedules, mesh.stages, options.matchings
        )
        self._paces = Paces(options.pace, control, mesh.generation)
        leave = mesh.raise_if_left
        model = PartModel(shape, self.split, self._sum_up, leave, exchange=self._exchange)
        actions = options.actions[self.split.stage]
        self._pipeline = Pipeline(model, self._operations, actions, self._paces)
        self._optimiser = Adam(options.learning_rate)
        self._size = self.split.parameters(shape)
        self.values: Numbers = np.zeros(self._size + 1, np.float32)
        """The gradient, and the loss: of this replica, then the means over all."""

    def initialise(self, state: Numbers) -> None:
        """Write this part of the initial parameters of the whole model."""
        whole = np.zeros(self._shape.parameters, np.float32)
        Model(self._shape).initialise(whole, self._seed)
        cut(whole, state[: self._size], self._shape, self.split)

    def step(self, step: int, state: State) -> Optional[float]:
        """Make a step; return its loss where this part knows it."""
        begin = time.monotonic()
        loss = self.prepare_gradient(step, state.numbers)
        delayed = self._control.delay_collective(self._mesh.generation)
        summed = self.sum_gradient()
        loss = None if loss is None else float(self.values[-1])
        with self._paces.computing(UPDATE):
            old, new = (numbers[: 3 * self._size] for numbers in (state.numbers, state.draft))
            gradient, leave = self.values[:-1], self._mesh.raise_if_left
            self._optimiser.update(old, new, gradient, 0, step, leave)
            digest = f"{zlib.crc32(new[: self._size].data):08x}"
        state.commit()
        end = time.monotonic()
        self._report(step, begin, end)
        self._control.emit(
            "step",
            end,
            generation=self._mesh.generation,
            step=step,
            begin=begin,
            end=end,
            collective=[end, end] if summed is None else [summed.begin, summed.end],
            algorithm="ring",
            choice=0,
            loss=loss,
            digest=digest,
            part=state.part,
            verified=True,
            bytes=0 if summed is None else summed.bytes,
            delayed=delayed,
            wire=None,
            **self._paces.report(),
        )
        return loss

    def prepare_gradient(self, step: int, state: Numbers) -> Optional[float]:
        """Compute this replica's share of the mean gradient; return its loss where it is known."""
        values, parameters = self.values, state[: self._size]
        loss = self._pipeline.run(parameters, self._batches(step), values[:-1])
        with self._paces.computing(PREPARE):
            if loss is not None and not math.isfinite(loss):
                raise Corrupt(f"in step {step} the loss is {loss}")
            values[-1] = 0.0 if loss is None else loss
            values *= np.float32(1 / self._replicas)
        return loss

    def sum_gradient(self) -> Optional[Operation]:
        """Add up the shares of all replicas; return what was done along `dp`, if there are several.

        Ranks along `ep` have other experts, and the rest of the gradient in common.
        """
        done = self._operations.all_reduce(DATA, self.values)
        common = self.values[self.split.of_experts(self._shape) :]
        self._operations.sum_directly(EXPERTS, common)
        return done

    def _report(self, step: int, begin: float, end: float) -> None:
        """Say what this rank communicated in a step, which is over."""
        operations = self._operations.end_iteration()
        self._control.emit(
            "operations",
            end,
            generation=self._mesh.generation,
            step=step,
            begin=begin,
            end=end,
            groups=self._operations.groups,
            operations=operations,
        )

    def _batches(self, step: int) -> list[tuple[Tokens, Tokens]]:
        """Return tokens and targets of each micro-batch of this replica."""
        options = self._options
        given = batch(self._seed, step, self._replica, options.batch, options.sequence)
        parts = (np.split(rows, options.micro_batches) for rows in given)
        return list(zip(*parts))  # noqa: B905 - Python 3.9

    def _exchange(self, blocks: Sequence[Array], lengths: Optional[Sequence[int]]) -> list[Array]:
        """Exchange rows of tokens with the ranks that have other experts; it is no computation."""
        with self._paces.not_computing():
            return self._operations.all_to_all(EXPERTS, blocks, lengths)

    def _sum_up(self, part: Array) -> Array:
        """Return the sum of what each rank of the tensor group gives."""
        whole = np.ascontiguousarray(part)
        self._operations.all_reduce(TENSOR, whole)
        return whole
