"""The part of the model of `train` that one rank of several has.

Its layers are split into pipeline stages; the heads and hidden units of each layer among the ranks
of a tensor group, as in Megatron-LM (Shoeybi et al., 2019): each adds its part of what a layer
gives, forward and backward, so two sums each way. The first stage has the embedding, the last the
output layer; a tensor group has both, and the gains of norms, whole on each of its ranks.

Where layers have experts, these are split among the ranks of an expert group, which have sequences
of their own and all other parameters whole: `exchange` carries tokens to their experts and back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional, Union

import numpy as np
import numpy.typing as npt

from .experts import Exchange, Experts, Fed, alone, feed, feed_backward
from .layers import (
    Array,
    Attended,
    Block,
    Normed,
    Rotary,
    attend,
    attend_backward,
    cross_entropy,
    rms_norm,
    rms_norm_backward,
)
from .model import Layer, RaiseIfLeft, Shape, Weights
from .text import VOCABULARY, Tokens

SumUp = Callable[[Array], Array]
"""Return the sum of what each rank of the tensor group gives."""


@dataclass(frozen=True)
class Split:
    """Which part it is: of the pipeline stages, the shares of each layer, and its experts."""

    stage: int = 0
    stages: int = 1
    share: int = 0
    shares: int = 1
    holder: int = 0
    """Which of the ranks that have experts."""
    holders: int = 1

    @property
    def number(self) -> int:
        """Return the number of the part: ranks with the same one hold the same parameters."""
        return (self.stage * self.shares + self.share) * self.holders + self.holder

    @property
    def is_first(self) -> bool:
        """Return whether the part begins with the embedding."""
        return self.stage == 0

    @property
    def is_last(self) -> bool:
        """Return whether the part ends with the output layer, and knows the loss."""
        return self.stage == self.stages - 1

    def layers(self, count: int) -> range:
        """Return which layers of the model the part has a share of."""
        each = count // self.stages
        return range(self.stage * each, (self.stage + 1) * each)

    def parameters(self, shape: Shape) -> int:
        """Return the number of parameters of the part."""
        dim, hidden = shape.dim, shape.hidden
        feed = dim * shape.experts if shape.experts else 3 * dim * hidden // self.shares
        layer = 2 * dim + 4 * dim**2 // self.shares + feed
        vocabulary = VOCABULARY * dim
        ends = self.is_first * vocabulary + self.is_last * (dim + vocabulary)
        dense = ends + len(self.layers(shape.layers)) * layer
        return self.of_experts(shape) + dense

    def of_experts(self, shape: Shape) -> int:
        """Return how many of these, the first ones, are of the part's experts."""
        each = 3 * shape.dim * shape.hidden // self.shares
        return len(self.layers(shape.layers)) * (shape.experts // self.holders) * each


@dataclass(frozen=True)
class PartWeights:
    """A flat vector of a part's parameters or of their gradients, as named views."""

    embedding: Optional[Array]
    layers: tuple[Layer, ...]
    output_norm: Optional[Array]
    output: Optional[Array]

    @classmethod
    def of(cls, vector: Array, shape: Shape, split: Split) -> PartWeights:
        """Return views of `vector` as the tensors of a part, without copying."""
        place = 0

        def take(*form: int) -> Array:
            nonlocal place
            start, place = place, place + int(np.prod(form))
            return vector[start:place].reshape(form)

        dim, wide, hidden = shape.dim, shape.dim // split.shares, shape.hidden // split.shares
        own = shape.experts // split.holders
        experts = [
            (take(own, dim, 2 * hidden), take(own, hidden, dim))
            for _ in (split.layers(shape.layers) if own else ())
        ]

        def feeding(number: int) -> Union[Block, Experts]:
            if not own:
                return Block(take(dim), take(dim, 2 * hidden), take(hidden, dim))
            return Experts(take(dim), take(dim, shape.experts), *experts[number])

        embedding = take(VOCABULARY, dim) if split.is_first else None
        layers = tuple(
            Layer(Block(take(dim), take(dim, 3 * wide), take(wide, dim)), feeding(number))
            for number in range(len(split.layers(shape.layers)))
        )
        norm = take(dim) if split.is_last else None
        return cls(embedding, layers, norm, take(dim, VOCABULARY) if split.is_last else None)


def cut(whole: Array, part: Array, shape: Shape, split: Split) -> None:
    """Copy what a part has of the parameters of the whole model, or of their gradients."""
    source, target = Weights.of(whole, shape), PartWeights.of(part, shape, split)
    if target.embedding is not None:
        target.embedding[:] = source.embedding
    for number, layer in zip(split.layers(shape.layers), target.layers):  # noqa: B905 - Python 3.9
        given = source.layers[number]
        for block, own, sides in (
            (given.attention, layer.attention, 3),
            (given.feed, layer.feed, 2),
        ):
            own.norm[:] = block.norm
            into, out_of = block.into, block.out_of
            if isinstance(own, Experts) and isinstance(block, Experts):
                own.router[:] = block.router
                held = len(own.into)
                here = slice(split.holder * held, (split.holder + 1) * held)
                into, out_of = into[here], out_of[here]
            width = own.out_of.shape[-2]
            mine = slice(split.share * width, (split.share + 1) * width)
            columns = into.reshape(*into.shape[:-1], sides, -1)[..., mine]
            own.into[:] = columns.reshape(own.into.shape)
            own.out_of[:] = out_of[..., mine, :]
    if target.output_norm is not None and target.output is not None:
        target.output_norm[:], target.output[:] = source.output_norm, source.output


@dataclass(frozen=True)
class Kept:
    """What the forward pass of a micro-batch leaves for its backward pass."""

    tokens: Tokens
    layers: tuple[tuple[Attended, Fed], ...]
    rows: Optional[Array] = None
    normed: Optional[Normed] = None
    d_logits: Optional[Array] = None


class PartModel:
    """Computes one part of losses and gradients for flat vectors; stores no parameters."""

    def __init__(
        self,
        shape: Shape,
        split: Split,
        sum_up: SumUp,
        raise_if_left: RaiseIfLeft,
        dtype: npt.DTypeLike = np.float32,
        exchange: Exchange = alone,
    ) -> None:
        self.shape, self.split = shape, split
        self._sum_up, self._raise_if_left, self._exchange = sum_up, raise_if_left, exchange
        self._dtype = np.dtype(dtype)
        self._rotary = Rotary.of(shape.sequence, shape.dim // shape.heads, self._dtype)

    def forward(
        self, parameters: Array, tokens: Tokens, targets: Tokens, x: Optional[Array]
    ) -> tuple[Array, Kept, Optional[float]]:
        """Return the activations after this part, what to keep, and in the last part the loss.

        `x` are the activations of the part before; None in the first one.
        """
        weights = PartWeights.of(parameters, self.shape, self.split)
        if weights.embedding is not None:
            x = weights.embedding[tokens.ravel()]
        assert x is not None
        heads, kept = self.shape.heads // self.split.shares, []
        for layer in weights.layers:
            self._raise_if_left()
            change, attended = attend(x, layer.attention, heads, self._rotary)
            x = x + self._sum_up(change)
            self._raise_if_left()
            change, fed = feed(x, layer.feed, self._exchange)
            x = x + self._sum_up(change)
            kept.append((attended, fed))
        if weights.output_norm is None or weights.output is None:
            return x, Kept(tokens, tuple(kept)), None
        self._raise_if_left()
        rows, normed = rms_norm(x, weights.output_norm)
        loss, d_logits = cross_entropy(rows @ weights.output, targets.ravel())
        return x, Kept(tokens, tuple(kept), rows, normed, d_logits), loss

    def backward(
        self, parameters: Array, kept: Kept, d_x: Optional[Array], gradient: Array
    ) -> Array:
        """Write the gradients of this part's parameters; return that of its first activations.

        `d_x` is the gradient of its last activations; None in the last part, which begins.
        """
        weights = PartWeights.of(parameters, self.shape, self.split)
        out = PartWeights.of(gradient, self.shape, self.split)
        d_x = self._output_backward(weights, kept, out) if d_x is None else d_x
        for index in reversed(range(len(weights.layers))):
            layer, d_layer = weights.layers[index], out.layers[index]
            attended, fed = kept.layers[index]
            self._raise_if_left()
            d_x = d_x + feed_backward(
                d_x, layer.feed, fed, d_layer.feed, self._exchange, self._sum_up
            )
            self._raise_if_left()
            d_x = d_x + attend_backward(
                d_x, layer.attention, self._rotary, attended, d_layer.attention, self._sum_up
            )
        self._raise_if_left()
        if out.embedding is not None:
            one_hot = np.eye(VOCABULARY, dtype=self._dtype)[kept.tokens.ravel()]
            np.matmul(one_hot.T, d_x, out=out.embedding)
        return d_x

    def _output_backward(self, weights: PartWeights, kept: Kept, out: PartWeights) -> Array:
        assert weights.output is not None and weights.output_norm is not None
        assert out.output is not None and out.output_norm is not None
        assert kept.rows is not None and kept.normed is not None and kept.d_logits is not None
        np.matmul(kept.rows.T, kept.d_logits, out=out.output)
        d_rows = kept.d_logits @ weights.output.T
        return rms_norm_backward(d_rows, weights.output_norm, kept.normed, out.output_norm)
