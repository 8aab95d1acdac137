"""A small Llama-style language model over bytes: the computation of the job `train`.

It has RMSNorm before attention and before SwiGLU, rotary positions, a separate output layer, and no
biases. With experts each layer has several feed-forward networks, one of which a token goes to. All
parameters are in one flat vector, and so is their gradient: the ring sums it, the optimiser updates
it and a new rank receives it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Union

import numpy as np
import numpy.typing as npt

from .experts import Experts, Fed, feed, feed_backward
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
from .text import VOCABULARY, Tokens

RaiseIfLeft = Callable[[], None]
"""Called every few milliseconds of compute; what it raises ends the computation."""


@dataclass(frozen=True)
class Shape:
    """The size of a model; every head has dim / heads channels, an even number.

    `experts` is how many feed-forward networks of `hidden` units each layer has; 0 for one that
    all tokens pass, without a router.
    """

    dim: int
    layers: int
    heads: int
    hidden: int
    sequence: int
    experts: int = 0

    def __post_init__(self) -> None:
        if self.dim % (2 * self.heads):
            raise ValueError(f"dim {self.dim} gives {self.heads} heads no even number of channels")

    @property
    def parameters(self) -> int:
        """Return the number of parameters of the model."""
        feeds = (self.experts or 1) * 3 * self.dim * self.hidden + self.dim * self.experts
        layer = 2 * self.dim + 4 * self.dim**2 + feeds
        return 2 * VOCABULARY * self.dim + self.layers * layer + self.dim


@dataclass(frozen=True)
class Layer:
    """The weights of one layer."""

    attention: Block
    feed: Union[Block, Experts]


@dataclass(frozen=True)
class Weights:
    """A flat vector of parameters or of gradients, as named views."""

    embedding: Array
    layers: tuple[Layer, ...]
    output_norm: Array
    output: Array

    @classmethod
    def of(cls, vector: Array, shape: Shape) -> Weights:
        """Return views of `vector` as the tensors of a model, without copying."""
        place = 0

        def take(*form: int) -> Array:
            nonlocal place
            start, place = place, place + int(np.prod(form))
            return vector[start:place].reshape(form)

        dim, hidden, experts = shape.dim, shape.hidden, shape.experts

        def feeding() -> Union[Block, Experts]:
            if not experts:
                return Block(take(dim), take(dim, 2 * hidden), take(hidden, dim))
            into, out_of = take(experts, dim, 2 * hidden), take(experts, hidden, dim)
            return Experts(take(dim), take(dim, experts), into, out_of)

        embedding = take(VOCABULARY, dim)
        layers = tuple(
            Layer(Block(take(dim), take(dim, 3 * dim), take(dim, dim)), feeding())
            for _ in range(shape.layers)
        )
        return cls(embedding, layers, take(dim), take(dim, VOCABULARY))


@dataclass(frozen=True)
class _Forward:
    """What the forward pass leaves for the backward pass."""

    logits: Array
    rows: Array
    normed: Normed
    layers: tuple[tuple[Attended, Fed], ...]


class Model:
    """Computes losses and gradients for flat vectors of parameters; stores no parameters."""

    def __init__(self, shape: Shape, dtype: npt.DTypeLike = np.float32) -> None:
        self.shape = shape
        self._dtype = np.dtype(dtype)
        self._rotary = Rotary.of(shape.sequence, shape.dim // shape.heads, self._dtype)

    def initialise(self, vector: Array, seed: int) -> None:
        """Fill `vector` with the initial parameters, the same bits on every host.

        They are uniform random numbers: normal ones need logarithms, whose last bit differs between
        libraries.
        """
        generator = np.random.Generator(np.random.Philox(key=[seed, 0]))

        def fill(tensor: Array, deviation: float) -> None:
            tensor[:] = (2 * generator.random(tensor.shape) - 1) * (3**0.5 * deviation)

        weights = Weights.of(vector, self.shape)
        fill(weights.embedding, 0.02)
        for layer in weights.layers:
            for block in (layer.attention, layer.feed):
                block.norm[:] = 1
                if isinstance(block, Experts):
                    fill(block.router, len(block.router) ** -0.5)
                fill(block.into, block.into.shape[-2] ** -0.5)
                # Two blocks per layer add to the same rows; keep their sum in bounds.
                fill(block.out_of, (2 * self.shape.layers * block.out_of.shape[-2]) ** -0.5)
        weights.output_norm[:] = 1
        fill(weights.output, len(weights.output) ** -0.5)

    def logits(self, parameters: Array, tokens: Tokens) -> Array:
        """Return the logits of the byte after each token: sequences × length × vocabulary."""
        forward = self._forward(Weights.of(parameters, self.shape), tokens, lambda: None)
        return forward.logits.reshape(*tokens.shape, VOCABULARY)

    def loss_and_gradient(
        self,
        parameters: Array,
        tokens: Tokens,
        targets: Tokens,
        gradient: Array,
        raise_if_left: RaiseIfLeft,
    ) -> float:
        """Return the mean loss in nats per byte and write its gradient into `gradient`."""
        weights, out = Weights.of(parameters, self.shape), Weights.of(gradient, self.shape)
        forward = self._forward(weights, tokens, raise_if_left)
        loss, d_logits = cross_entropy(forward.logits, targets.ravel())
        raise_if_left()
        np.matmul(forward.rows.T, d_logits, out=out.output)
        d_rows = d_logits @ weights.output.T
        d_x = rms_norm_backward(d_rows, weights.output_norm, forward.normed, out.output_norm)
        d_x = self._layers_backward(d_x, weights, forward, out, raise_if_left)
        # A product rather than adding row by row: it is faster and has a fixed order.
        one_hot = np.eye(VOCABULARY, dtype=self._dtype)[tokens.ravel()]
        np.matmul(one_hot.T, d_x, out=out.embedding)
        return loss

    def _forward(self, weights: Weights, tokens: Tokens, raise_if_left: RaiseIfLeft) -> _Forward:
        x = weights.embedding[tokens.ravel()]
        kept = []
        for layer in weights.layers:
            raise_if_left()
            change, attended = attend(x, layer.attention, self.shape.heads, self._rotary)
            x = x + change
            raise_if_left()
            change, fed = feed(x, layer.feed)
            x = x + change
            kept.append((attended, fed))
        raise_if_left()
        rows, normed = rms_norm(x, weights.output_norm)
        return _Forward(rows @ weights.output, rows, normed, tuple(kept))

    def _layers_backward(
        self,
        d_x: Array,
        weights: Weights,
        forward: _Forward,
        out: Weights,
        raise_if_left: RaiseIfLeft,
    ) -> Array:
        for index in reversed(range(self.shape.layers)):
            layer, d_layer = weights.layers[index], out.layers[index]
            attended, fed = forward.layers[index]
            raise_if_left()
            d_x = d_x + feed_backward(d_x, layer.feed, fed, d_layer.feed)
            raise_if_left()
            d_x = d_x + attend_backward(
                d_x, layer.attention, self._rotary, attended, d_layer.attention
            )
        raise_if_left()
        return d_x
