"""The Adam optimiser (Kingma and Ba, 2015), from one version of the state into the other.

A state is parameters, first and second moments, one third each. Every operation is rounded the
same way by all hardware, so ranks on unlike hosts that got the same gradient stay identical.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .state import Numbers

FIRST_DECAY = 0.9
SECOND_DECAY = 0.95
EPSILON = 1e-8

BLOCK = 64 << 10
"""Elements updated together: few enough to stay in the cache between the operations."""


class Adam:
    """Updates the parameters of a model, one range at a time."""

    def __init__(self, learning_rate: float) -> None:
        self._learning_rate = learning_rate
        self._scratch = np.empty(BLOCK, np.float32)

    def update(
        self,
        old: Numbers,
        new: Numbers,
        gradient: Numbers,
        start: int,
        step: int,
        raise_if_left: Callable[[], None],
    ) -> None:
        """Write the updated parameters from index `start` on into `new`.

        `gradient` belongs to these parameters; `step` counts from 0.
        """
        thirds = old.reshape(3, -1), new.reshape(3, -1)
        for offset in range(0, len(gradient), BLOCK):
            raise_if_left()
            part = gradient[offset : offset + BLOCK]
            place = slice(start + offset, start + offset + len(part))
            self._block(thirds[0][:, place], thirds[1][:, place], part, step)

    def _block(self, old: Numbers, new: Numbers, gradient: Numbers, step: int) -> None:
        (weight, first, second), (new_weight, new_first, new_second) = old, new
        scratch = self._scratch[: len(gradient)]
        # m ← m + (1 − β₁)(g − m)
        np.subtract(gradient, first, out=scratch)
        np.multiply(scratch, np.float32(1 - FIRST_DECAY), out=scratch)
        np.add(first, scratch, out=new_first)
        # v ← v + (1 − β₂)(g² − v)
        np.multiply(gradient, gradient, out=scratch)
        np.subtract(scratch, second, out=scratch)
        np.multiply(scratch, np.float32(1 - SECOND_DECAY), out=scratch)
        np.add(second, scratch, out=new_second)
        # w ← w − η·m̂ / (√v̂ + ε), with the factors against the start from zero
        first_scale = self._learning_rate / (1 - FIRST_DECAY ** (step + 1))
        second_scale = 1 / (1 - SECOND_DECAY ** (step + 1))
        np.multiply(new_second, np.float32(second_scale), out=scratch)
        np.sqrt(scratch, out=scratch)
        np.add(scratch, np.float32(EPSILON), out=scratch)
        np.divide(new_first, scratch, out=scratch)
        np.multiply(scratch, np.float32(first_scale), out=scratch)
        np.subtract(weight, scratch, out=new_weight)
