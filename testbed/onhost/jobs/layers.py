"""The layers of a Llama-style language model, each with a hand-written backward pass.

A forward function returns its output and the values that the backward function needs; a backward
function writes the gradients of its weights into `d_block` and returns the gradient of its input.
Activations are rows, one per token of the batch.

A block may hold some of the heads or of the hidden units only, as one rank of several does that
share a layer: its output is then a part of a sum over these ranks, and so is the gradient of its
normed input, which the backward function has `sum_up` add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
"""Floats of one precision throughout a model: float32 to train, float64 to check gradients."""

EPSILON = 1e-5


def whole(part: Array) -> Array:
    """Return a part that is all there is."""
    return part


@dataclass(frozen=True)
class Block:
    """The weights of one residual block: the norm's gain, the input and the output projection."""

    norm: Array
    into: Array
    out_of: Array


@dataclass(frozen=True)
class Normed:
    """The values that `rms_norm` keeps: the rows before the gain, and 1 / root mean square."""

    rows: Array
    scale: Array


def rms_norm(x: Array, gain: Array) -> tuple[Array, Normed]:
    """Scale every row to a root mean square of one, then by `gain` (Zhang and Sennrich, 2019)."""
    scale = 1 / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + EPSILON)
    rows = x * scale
    return rows * gain, Normed(rows, scale)


def rms_norm_backward(d_out: Array, gain: Array, kept: Normed, d_gain: Array) -> Array:
    """Compute the gradients of `rms_norm`."""
    np.sum(d_out * kept.rows, axis=0, out=d_gain)
    d_rows = d_out * gain
    along = np.mean(d_rows * kept.rows, axis=1, keepdims=True)
    d_x: Array = (d_rows - kept.rows * along) * kept.scale
    return d_x


@dataclass(frozen=True)
class Rotary:
    """Rotations of pairs of channels by an angle that grows with the position (Su et al., 2021)."""

    cosine: Array
    sine: Array

    @classmethod
    def of(cls, length: int, channels: int, dtype: npt.DTypeLike) -> Rotary:
        """Return the rotations for every position in a sequence."""
        frequencies = 10000.0 ** (-np.arange(0, channels, 2) / channels)
        angles = np.arange(length)[:, None] * frequencies
        return cls(np.cos(angles).astype(dtype), np.sin(angles).astype(dtype))

    def turn(self, x: Array) -> Array:
        """Rotate along the last two axes, position and channel; channel i pairs with i + half."""
        half = x.shape[-1] // 2
        first, second = x[..., :half], x[..., half:]
        turned = np.empty_like(x)
        turned[..., :half] = first * self.cosine - second * self.sine
        turned[..., half:] = second * self.cosine + first * self.sine
        return turned

    def turn_back(self, x: Array) -> Array:
        """Undo `turn`, which is also its backward pass, since rotations are orthogonal."""
        return Rotary(self.cosine, -self.sine).turn(x)


@dataclass(frozen=True)
class Attended:
    """The values that `attend` keeps; `query` to `value` by sequence, head, position, channel."""

    normed: Normed
    rows: Array
    query: Array
    key: Array
    value: Array
    weights: Array
    mixed: Array


def attend(x: Array, block: Block, heads: int, rotary: Rotary) -> tuple[Array, Attended]:
    """Apply causal multi-head attention: each token attends to those before it in its sequence."""
    length, channels = len(rotary.cosine), block.into.shape[1] // (3 * heads)
    rows, normed = rms_norm(x, block.norm)
    by_head = (rows @ block.into).reshape(-1, length, 3, heads, channels)
    query, key, value = by_head.transpose(2, 0, 3, 1, 4)
    query, key = rotary.turn(query), rotary.turn(key)
    scores = query @ key.swapaxes(-1, -2)
    scores *= x.dtype.type(channels**-0.5)
    scores[..., _ahead(length)] = -np.inf
    scores -= scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores, out=scores)
    weights /= weights.sum(axis=-1, keepdims=True)
    mixed = (weights @ value).swapaxes(1, 2).reshape(len(x), -1)
    return mixed @ block.out_of, Attended(normed, rows, query, key, value, weights, mixed)


def attend_backward(
    d_out: Array,
    block: Block,
    rotary: Rotary,
    kept: Attended,
    d_block: Block,
    sum_up: Callable[[Array], Array] = whole,
) -> Array:
    """Compute the gradients of `attend`."""
    sequences, heads, length, channels = kept.query.shape
    np.matmul(kept.mixed.T, d_out, out=d_block.out_of)
    d_mixed = (d_out @ block.out_of.T).reshape(sequences, length, heads, channels).swapaxes(1, 2)
    d_weights = d_mixed @ kept.value.swapaxes(-1, -2)
    along = np.sum(d_weights * kept.weights, axis=-1, keepdims=True)
    d_scores = (d_weights - along) * kept.weights
    d_scores *= d_out.dtype.type(channels**-0.5)
    d_by_head = np.empty((sequences, length, 3, heads, channels), d_out.dtype)
    d_query, d_key, d_value = d_by_head.transpose(2, 0, 3, 1, 4)
    d_query[:] = rotary.turn_back(d_scores @ kept.key)
    d_key[:] = rotary.turn_back(d_scores.swapaxes(-1, -2) @ kept.query)
    d_value[:] = kept.weights.swapaxes(-1, -2) @ d_mixed
    d_projected = d_by_head.reshape(len(d_out), -1)
    np.matmul(kept.rows.T, d_projected, out=d_block.into)
    d_rows = sum_up(d_projected @ block.into.T)
    return rms_norm_backward(d_rows, block.norm, kept.normed, d_block.norm)


def _ahead(length: int) -> npt.NDArray[np.bool_]:
    return np.triu(np.ones((length, length), np.bool_), k=1)


@dataclass(frozen=True)
class Hidden:
    """The values that `feed_forward` keeps: its rows, both halves of the hidden layer, a product.

    The logistic function of the gate is among them.
    """

    rows: Array
    gate: Array
    sigmoid: Array
    up: Array
    product: Array


def feed_forward(rows: Array, into: Array, out_of: Array) -> tuple[Array, Hidden]:
    """Apply the gated layer SwiGLU (Shazeer, 2020) to rows; `into` holds gate and up."""
    gate, up = np.split(rows @ into, 2, axis=1)
    sigmoid = 0.5 * np.tanh(0.5 * gate) + 0.5  # the logistic function, in a form without overflow
    product = gate * sigmoid * up
    return product @ out_of, Hidden(rows, gate, sigmoid, up, product)


def feed_forward_backward(
    d_out: Array, into: Array, out_of: Array, kept: Hidden, d_into: Array, d_out_of: Array
) -> Array:
    """Compute the gradients of `feed_forward`; return that of its rows."""
    np.matmul(kept.product.T, d_out, out=d_out_of)
    d_hidden = d_out @ out_of.T
    silu = kept.gate * kept.sigmoid
    d_gate = d_hidden * kept.up * (kept.sigmoid + silu * (1 - kept.sigmoid))
    d_projected = np.concatenate((d_gate, d_hidden * silu), axis=1)
    np.matmul(kept.rows.T, d_projected, out=d_into)
    d_rows: Array = d_projected @ into.T
    return d_rows


@dataclass(frozen=True)
class Gated:
    """The values that `swiglu` keeps."""

    normed: Normed
    hidden: Hidden


def swiglu(x: Array, block: Block) -> tuple[Array, Gated]:
    """Apply a norm and the feed-forward layer."""
    rows, normed = rms_norm(x, block.norm)
    out, hidden = feed_forward(rows, block.into, block.out_of)
    return out, Gated(normed, hidden)


def swiglu_backward(
    d_out: Array,
    block: Block,
    kept: Gated,
    d_block: Block,
    sum_up: Callable[[Array], Array] = whole,
) -> Array:
    """Compute the gradients of `swiglu`."""
    d_part = feed_forward_backward(
        d_out, block.into, block.out_of, kept.hidden, d_block.into, d_block.out_of
    )
    return rms_norm_backward(sum_up(d_part), block.norm, kept.normed, d_block.norm)


def cross_entropy(logits: Array, targets: npt.NDArray[np.int64]) -> tuple[float, Array]:
    """Return the mean loss in nats and the gradient of the logits."""
    rows = np.arange(len(targets))
    shifted = logits - logits.max(axis=1, keepdims=True)
    d_logits = np.exp(shifted)
    totals = d_logits.sum(axis=1, keepdims=True)
    loss = float(np.mean(np.log(totals[:, 0]) - shifted[rows, targets]))
    d_logits /= totals
    d_logits[rows, targets] -= 1
    d_logits /= logits.dtype.type(len(targets))
    return loss, d_logits
