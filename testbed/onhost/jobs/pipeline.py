"""One rank's part of an iteration: micro-batches through its pipeline stage, forward and backward.

The order, such as GPipe's (Huang et al., 2019) or one forward, one backward (1F1B; Narayanan et
al., 2021), is given. It does not change what comes out: gradients are added up in the order of the
micro-batches either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np

from .layers import Array
from .operations import Operations
from .pace import Paces
from .split_model import Kept, PartModel
from .text import Tokens

PIPELINE = "pp"
"""The dimension of the mesh along which the pipeline stages are."""

FORWARD, BACKWARD = "forward", "backward"

Action = Sequence[object]
"""FORWARD or BACKWARD, and the number of the micro-batch."""


class Pipeline:
    """Runs micro-batches of one shape through one pipeline stage."""

    def __init__(
        self,
        model: PartModel,
        operations: Operations,
        actions: Sequence[Action],
        paces: Paces,
    ) -> None:
        """Take what this stage computes, in order."""
        self._model, self._operations = model, operations
        self._actions, self._paces = actions, paces
        self._scratch = np.zeros(0, np.float32)

    def run(
        self, parameters: Array, batches: Sequence[tuple[Tokens, Tokens]], gradient: Array
    ) -> Optional[float]:
        """Write the mean gradient over the micro-batches; return their mean loss in the last stage.

        Gradient and loss are those of this replica.
        """
        kept: dict[int, Kept] = {}
        losses: list[float] = []
        if self._scratch.size != gradient.size:
            self._scratch = np.zeros_like(gradient)
        gradient[:] = 0
        for what, number in self._actions:
            assert isinstance(number, int)
            if what == FORWARD:
                kept[number], loss = self._forward(parameters, *batches[number])
                losses += [] if loss is None else [loss]
            else:
                self._backward(parameters, kept.pop(number))
                gradient += self._scratch
        gradient *= gradient.dtype.type(1 / len(batches))
        return sum(losses) / len(losses) if losses else None

    def _forward(
        self, parameters: Array, tokens: Tokens, targets: Tokens
    ) -> tuple[Kept, Optional[float]]:
        split, x = self._model.split, None
        if not split.is_first:
            x = self._buffer(tokens.size)
            self._operations.receive(PIPELINE, split.stage - 1, x)
        with self._paces.computing(FORWARD):
            out, kept, loss = self._model.forward(parameters, tokens, targets, x)
        if not split.is_last:
            self._operations.send(PIPELINE, split.stage + 1, np.ascontiguousarray(out))
        return kept, loss

    def _backward(self, parameters: Array, kept: Kept) -> None:
        split, d_x = self._model.split, None
        if not split.is_last:
            d_x = self._buffer(kept.tokens.size)
            self._operations.receive(PIPELINE, split.stage + 1, d_x)
        with self._paces.computing(BACKWARD):
            d_given = self._model.backward(parameters, kept, d_x, self._scratch)
        if not split.is_first:
            self._operations.send(PIPELINE, split.stage - 1, np.ascontiguousarray(d_given))

    def _buffer(self, rows: int) -> Array:
        return np.empty((rows, self._model.shape.dim), np.float32)
