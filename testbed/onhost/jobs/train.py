"""The job `train`: data-parallel training of a small language model.

A step depends on the state before it, the seed, its number, the ranks and their collective alone;
so a run that was interrupted and resumed ends with the same bits as one that was not.

Every sum of gradients is verified before it is used: all of its values in the first step of a
generation, in the others a sixteenth of them in turn and a sample (verified_sum.py, checksums.py).
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from ..communication.connections import BYTES
from ..communication.control import Control
from ..communication.group import Group
from ..communication.ring import Ring
from ..frames import Message
from .model import Model, Shape
from .optimiser import Adam
from .pace import Pace
from .state import State
from .text import batch
from .verified_sum import GradientSum, VerifiedVector


@dataclass(frozen=True)
class Options:
    """The options of the model and its batches; `batch` is sequences per rank and step.

    A step has as many sequences in all as the ranks that the job began with have together: where
    a later generation has other ranks, they share them, and the first have one more if need be.

    The defaults give 16.3 MiB of state and about 35 ms of compute per step on one core of 2024.
    Without a `schedule`, as plain data, a ring sums the gradients, or two `rings` half of them
    each. `pace` is the seconds that each rank computes between two sums.
    """

    dim: int = 192
    layers: int = 3
    heads: int = 6
    hidden: int = 512
    sequence: int = 64
    batch: int = 3
    learning_rate: float = 1e-3
    schedule: Mapping[str, Any] | None = None
    around: bool = False
    """The schedule forwards data around a ring of ranks, in which no others are connected."""
    pace: Optional[float] = None
    rings: int = 1


class Job:
    """Trains until the agent ends it; the state is the parameters and both moments of Adam.

    With a schedule the ranks sum one number more: that of the newest choice of the agent that each
    knows. So all ranks learn in the same step that every rank knows the choice, and use it from the
    next step on.
    """

    def __init__(self, options: Mapping[str, Any], seed: int, ranks: int) -> None:
        given = self._options = Options(**options)
        self.connects_to = "neighbours" if given.schedule is None else "everybody"
        if given.around:
            self.connects_to = "neighbours both ways"
        shape = Shape(given.dim, given.layers, given.heads, given.hidden, given.sequence)
        self._seed, self._all_sequences = seed, given.batch * ranks
        self._model = Model(shape)
        self._size = shape.parameters
        self._optimiser = Adam(given.learning_rate)
        # The gradient, by a schedule the number of the choice, and the loss.
        self._values = np.zeros(self._size + (1 if given.schedule is None else 2), np.float32)
        self._sum = GradientSum(self._values.size, ranks, given.schedule, rings=given.rings)
        self.state = State(3 * self._size)
        self._model.initialise(self.state.numbers[: self._size], seed)
        self.loss: float | None = None

    def warm_up(self, raise_if_left: Callable[[], None]) -> None:
        """Touch all memory and code that the first step uses, without changing a valid version."""
        self._compute(0, 0, self._sum.vector.ranks, raise_if_left)
        self._sum.vector.fill(self._values, 0, 0)
        self._update(0, self._sum.vector, raise_if_left)

    def run(self, group: Ring | Group, control: Control) -> None:
        """Train from the next step on, until the agent's last step is committed.

        A generation begins with the schedule of the options, whatever was chosen in another.
        """
        given, rings = self._options.schedule, self._options.rings
        if given is not None or self._sum.vector.ranks != group.ranks:
            self._sum = GradientSum(self._values.size, group.ranks, given, rings=rings)
        first = self.state.step
        pace = Pace(self._options.pace, control, group.generation)
        while True:
            step = self.state.step
            assert step is not None
            if control.ends_before(step):
                return
            self._step(step, group, control, pace, whole=step == first)

    def _step(
        self, step: int, group: Ring | Group, control: Control, pace: Pace, *, whole: bool
    ) -> None:
        """Make a step; verify the `whole` sum, or the part of it whose turn it is."""
        begin = time.monotonic()
        self._compute(step, group.rank, group.ranks, group.raise_if_left)
        gradient_sum, choice = self._sum, control.choice
        if gradient_sum.schedule is not None:
            self._values[self._size] = choice["number"] if choice else 0
        gradient_sum.vector.fill(self._values, step, group.rank, whole=whole)
        paced = pace.wait()
        delayed = control.delay_collective(group.generation)
        collective_begin = time.monotonic()
        record = gradient_sum.run(group)
        collective_end = time.monotonic()
        pace.restart()
        elements = gradient_sum.vector.verify(step, whole=whole)
        self._follow(choice)
        self.loss = self._update(step, gradient_sum.vector, group.raise_if_left)
        digest = f"{zlib.crc32(self.state.draft[: self._size].data):08x}"
        self.state.commit()
        end = time.monotonic()
        control.emit(
            "step",
            end,
            generation=group.generation,
            step=step,
            begin=begin,
            end=end,
            collective=[collective_begin, collective_end],
            algorithm=gradient_sum.name,
            choice=gradient_sum.choice,
            loss=self.loss,
            digest=digest,
            verified=True,
            elements=elements,
            bytes=record.sent,
            delayed=delayed,
            waits=record.waits,
            wire=next(iter(group.connections.sent_on_wire(BYTES)), None),
            **paced,
        )

    def _follow(self, choice: Message | None) -> None:
        """Sum as a new choice says from the next step on, if all ranks have heard of it."""
        vector = self._sum.vector
        if choice is None or self._sum.schedule is None or choice["number"] == self._sum.choice:
            return
        number = choice["number"]
        if vector.value(self._size) == number * vector.ranks:
            self._sum = GradientSum(self._values.size, vector.ranks, choice["schedule"], number)

    def _compute(self, step: int, rank: int, ranks: int, raise_if_left: Callable[[], None]) -> None:
        """Compute loss and gradient of one rank's share of the step's sequences.

        Where shares differ in size, each counts in the mean over the ranks by its size.
        """
        everything = self._all_sequences
        share = everything // ranks + (rank < everything % ranks)
        tokens, targets = batch(self._seed, step, rank, share, self._options.sequence)
        parameters = self.state.numbers[: self._size]
        gradient = self._values[: self._size]
        loss = self._model.loss_and_gradient(parameters, tokens, targets, gradient, raise_if_left)
        self._values[-1] = loss
        if everything % ranks:
            self._values *= np.float32(share * ranks / everything)

    def _update(
        self, step: int, vector: VerifiedVector, raise_if_left: Callable[[], None]
    ) -> float:
        """Write the next version of the state; return the mean loss over the ranks."""
        old, new = self.state.numbers, self.state.draft
        for start, sums in vector.places:
            sums *= np.float32(1 / vector.ranks)
            gradient = sums[: max(0, self._size - start)]
            self._optimiser.update(old, new, gradient, start, step, raise_if_left)
        return vector.last
