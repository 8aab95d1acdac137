"""The job `train`: data-parallel training of a small language model, one batch per rank and step.

A step depends on the state before it, the seed, its number and the ranks alone; so a run that was
interrupted and resumed ends with the same bits as one that was not.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .control import Control
from .errors import Corrupt
from .model import Model, Shape
from .optimiser import Adam
from .ring import Ring
from .state import Numbers, State
from .text import batch

_PRIME = 65521


@dataclass(frozen=True)
class Options:
    """The model and its batches; `batch` is sequences per rank and step.

    The defaults give 16.3 MiB of state and about 35 ms of compute per step on one core of 2024.
    """

    dim: int = 192
    layers: int = 3
    heads: int = 6
    hidden: int = 512
    sequence: int = 64
    batch: int = 3
    learning_rate: float = 1e-3


class Job:
    """Train until told to finish; the state is the parameters and both moments of Adam."""

    meets = "neighbours"

    def __init__(self, options: Mapping[str, Any], seed: int, ranks: int) -> None:
        given = self._options = Options(**options)
        shape = Shape(given.dim, given.layers, given.heads, given.hidden, given.sequence)
        self._seed = seed
        self._model = Model(shape)
        self._size = shape.parameters
        self._optimiser = Adam(given.learning_rate)
        self._values = np.zeros(self._size + 1, np.float32)  # the gradient and then the loss
        self._exchange = Exchange(self._size + 1, ranks)
        self.state = State(3 * self._size)
        self._model.initialise(self.state.numbers[: self._size], seed)
        self.loss: float | None = None

    def warm_up(self, checkpoint: Callable[[], None]) -> None:
        """Touch everything that the first step will; changes no version that is valid."""
        self._compute(0, 0, checkpoint)
        self._exchange.fill(self._values, 0, 0)
        self._update(0, checkpoint)

    def run(self, ring: Ring, control: Control) -> None:
        """Train from the next step on, until the agent's last step is committed."""
        if self._exchange.ranks != ring.ranks:
            self._exchange = Exchange(self._size + 1, ring.ranks)
        while True:
            step = self.state.step
            assert step is not None
            if control.ends_before(step):
                return
            self._step(step, ring, control)

    def _step(self, step: int, ring: Ring, control: Control) -> None:
        begin = time.monotonic()
        self._compute(step, ring.rank, ring.checkpoint)
        self._exchange.fill(self._values, step, ring.rank)
        delayed = control.hold_back(ring.generation)
        collective_begin = time.monotonic()
        sent = ring.all_reduce(self._exchange.vector)
        collective_end = time.monotonic()
        self._exchange.verify(step)
        self.loss = self._update(step, ring.checkpoint)
        digest = f"{zlib.crc32(self.state.draft[: self._size].data):08x}"
        self.state.commit()
        end = time.monotonic()
        control.emit(
            "step",
            end,
            generation=ring.generation,
            step=step,
            begin=begin,
            end=end,
            collective=[collective_begin, collective_end],
            loss=self.loss,
            digest=digest,
            verified=True,
            bytes=sent,
            delayed=delayed,
            waits={(ring.rank - 1) % ring.ranks: ring.waited},
            wire=ring.links.bytes_on_wire(),
        )

    def _compute(self, step: int, rank: int, checkpoint: Callable[[], None]) -> None:
        options = self._options
        tokens, targets = batch(self._seed, step, rank, options.batch, options.sequence)
        parameters = self.state.numbers[: self._size]
        gradient = self._values[: self._size]
        loss = self._model.loss_and_gradient(parameters, tokens, targets, gradient, checkpoint)
        self._values[self._size] = loss

    def _update(self, step: int, checkpoint: Callable[[], None]) -> float:
        """Write the next version of the state; return the mean loss over the ranks."""
        old, new = self.state.numbers, self.state.draft
        for start, sums in self._exchange.places:
            sums *= np.float32(1 / self._exchange.ranks)
            gradient = sums[: self._size - start]
            self._optimiser.update(old, new, gradient, start, step, checkpoint)
        return self._exchange.last


class Exchange:
    """The values that the ranks sum, one row per chunk of the ring, each closed by a sentinel.

    A sentinel is a small whole number made of rank, step and chunk, so its sum is known and exact:
    a rank's contribution that is missing, counted twice or left over from another step shows.
    """

    def __init__(self, size: int, ranks: int) -> None:
        self.ranks = ranks
        width = -(-size // ranks)
        self._rows = np.zeros((ranks, width + 1), np.float32)
        self.vector: Numbers = self._rows.reshape(-1)
        """What the ring sums; each of its chunks is one row."""
        self.places: list[tuple[int, Numbers]] = [
            (start, self._rows[chunk, : min(width, size - start)])
            for chunk, start in enumerate(range(0, size, width))
        ]
        """The values without sentinels and padding: the index of the first, and the values."""

    @property
    def last(self) -> float:
        """Return the last of the values."""
        return float(self.places[-1][1][-1])

    def fill(self, values: Numbers, step: int, rank: int) -> None:
        """Put one rank's values and sentinels in place of whatever was there."""
        for start, place in self.places:
            place[:] = values[start : start + len(place)]
        self._rows[:, -1] = sentinels(rank, step, self.ranks)

    def verify(self, step: int) -> None:
        """Raise Corrupt unless every sentinel is the sum over the ranks and the loss a number."""
        expected = np.sum([sentinels(rank, step, self.ranks) for rank in range(self.ranks)], axis=0)
        wrong = np.flatnonzero(self._rows[:, -1] != expected)
        if wrong.size:
            chunk = int(wrong[0])
            came = self._rows[chunk, -1]
            raise Corrupt(f"the sentinel of chunk {chunk} is {came}, not {expected[chunk]}")
        if not math.isfinite(self.last):
            raise Corrupt(f"the sum of the losses is {self.last}")


def sentinels(rank: int, step: int, ranks: int) -> Numbers:
    """Return one rank's sentinels, one per chunk; any two ranks have different ones, as have steps.

    With up to 256 ranks their sum stays within 2²⁴, where float32 still counts exactly.
    """
    chunks = np.arange(ranks)
    return (1 + (39208 * rank + 7919 * step + 31 * chunks) % _PRIME).astype(np.float32)
