"""A mixture of experts in place of a feed-forward layer, with a hand-written backward pass.

A router gives each token to the expert that it finds most likely, and the expert's output is scaled
by that probability, as in the Switch Transformer (Fedus et al., 2021). No token is dropped and no
loss is added to balance the experts, so what a token becomes does not depend on other tokens, and
experts on several ranks compute what one rank with all of them does.

Experts may be on several ranks, as many on each: `exchange` then carries rows of tokens to the
ranks that have their experts, and what these make of them back, in both passes. A rank may hold
some of the hidden units of its experts only, as in `layers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from .layers import (
    Array,
    Block,
    Gated,
    Hidden,
    Normed,
    feed_forward,
    feed_forward_backward,
    rms_norm,
    rms_norm_backward,
    swiglu,
    swiglu_backward,
    whole,
)

Numbers = npt.NDArray[Any]

Exchange = Callable[[Sequence[Array], Optional[Sequence[int]]], list[Array]]
"""Give each rank that has experts its rows; return the rows that each of them gives this one.

Blocks are in the order of the ranks, the own one among them, and have two axes. How many rows come
from each is given where it is known; else each rank says so itself."""


def alone(blocks: Sequence[Array], lengths: Optional[Sequence[int]]) -> list[Array]:
    """Exchange the rows of a rank that has all experts: they stay where they are."""
    return list(blocks)


@dataclass(frozen=True)
class Experts:
    """The weights of one layer of experts: norm and router are whole on every rank.

    `router` has a column for each expert of the layer; `into` and `out_of` have the experts of this
    rank only along their first axis.
    """

    norm: Array
    router: Array
    into: Array
    out_of: Array


@dataclass(frozen=True)
class Routed:
    """The values that `mix` keeps.

    `order` sorts tokens by expert, `sent` and `arrived` are how many rows went to each rank and
    came from it, `places` by own expert which of those that arrived are its, `out` what experts
    made of each token.
    """

    normed: Normed
    rows: Array
    probabilities: Array
    chosen: Numbers
    order: Numbers
    sent: list[int]
    arrived: list[int]
    places: list[Numbers]
    hidden: list[Hidden]
    out: Array


Fed = Union[Gated, Routed]
"""What a feed-forward layer keeps, with experts or without."""


def route(rows: Array, router: Array) -> tuple[Array, Numbers]:
    """Return the probability of each expert by token, and the most likely one, of equals the first.

    It depends on the token's row and the router alone.
    """
    scores = rows @ router
    scores -= scores.max(axis=1, keepdims=True)
    probabilities = np.exp(scores, out=scores)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return probabilities, np.argmax(probabilities, axis=1)


def mix(x: Array, block: Experts, exchange: Exchange = alone) -> tuple[Array, Routed]:
    """Apply a norm and the layer of experts; what has come to this rank is kept."""
    rows, normed = rms_norm(x, block.norm)
    probabilities, chosen = route(rows, block.router)
    own, order = len(block.into), np.argsort(chosen, kind="stable")
    # The number of the expert on its rank goes along with each row.
    labelled = np.column_stack((rows, (chosen % own).astype(rows.dtype)))[order]
    sent = np.bincount(chosen // own, minlength=block.router.shape[1] // own).tolist()
    blocks = exchange(_split(labelled, sent), None)
    came = np.concatenate(blocks)
    places = [np.flatnonzero(came[:, -1] == expert) for expert in range(own)]
    given, hidden = np.zeros((len(came), rows.shape[1]), rows.dtype), []
    for expert, place in enumerate(places):
        given[place], kept = feed_forward(
            came[place, :-1], block.into[expert], block.out_of[expert]
        )
        hidden.append(kept)
    arrived = [len(each) for each in blocks]
    out = _unsorted(exchange(_split(given, arrived), sent), order)
    routed = Routed(normed, rows, probabilities, chosen, order, sent, arrived, places, hidden, out)
    return out * _chosen(probabilities, chosen), routed


def mix_backward(
    d_out: Array,
    block: Experts,
    kept: Routed,
    d_block: Experts,
    exchange: Exchange = alone,
    sum_up: Callable[[Array], Array] = whole,
) -> Array:
    """Compute the gradients of `mix`; which expert a token goes to has none."""
    scale = _chosen(kept.probabilities, kept.chosen)
    d_scale = sum_up(np.sum(d_out * kept.out, axis=1, keepdims=True))
    d_given = np.concatenate(exchange(_split((d_out * scale)[kept.order], kept.sent), kept.arrived))
    d_came = np.zeros_like(d_given)
    for expert, place in enumerate(kept.places):
        d_came[place] = feed_forward_backward(
            d_given[place],
            block.into[expert],
            block.out_of[expert],
            kept.hidden[expert],
            d_block.into[expert],
            d_block.out_of[expert],
        )
    d_rows = sum_up(_unsorted(exchange(_split(d_came, kept.arrived), kept.sent), kept.order))
    # The softmax of the router, of which only the chosen probability is used.
    d_scores = -kept.probabilities * (scale * d_scale)
    d_scores[np.arange(len(d_scores)), kept.chosen] += (scale * d_scale)[:, 0]
    np.matmul(kept.rows.T, d_scores, out=d_block.router)
    d_rows = d_rows + d_scores @ block.router.T
    return rms_norm_backward(d_rows, block.norm, kept.normed, d_block.norm)


def feed(x: Array, block: Union[Block, Experts], exchange: Exchange = alone) -> tuple[Array, Fed]:
    """Apply the feed-forward layer, with experts where it has them."""
    return mix(x, block, exchange) if isinstance(block, Experts) else swiglu(x, block)


def feed_backward(
    d_out: Array,
    block: Union[Block, Experts],
    kept: Fed,
    d_block: Union[Block, Experts],
    exchange: Exchange = alone,
    sum_up: Callable[[Array], Array] = whole,
) -> Array:
    """Compute the gradients of `feed`."""
    if isinstance(block, Experts):
        assert isinstance(kept, Routed) and isinstance(d_block, Experts)
        return mix_backward(d_out, block, kept, d_block, exchange, sum_up)
    assert isinstance(kept, Gated) and isinstance(d_block, Block)
    return swiglu_backward(d_out, block, kept, d_block, sum_up)


def _chosen(probabilities: Array, chosen: Numbers) -> Array:
    found: Array = np.take_along_axis(probabilities, chosen[:, None], axis=1)
    return found


def _split(rows: Array, lengths: Sequence[int]) -> list[Array]:
    ends = list(accumulate(lengths))
    return [rows[end - length : end] for end, length in zip(ends, lengths)]  # noqa: B905


def _unsorted(blocks: Sequence[Array], order: Numbers) -> Array:
    """Return the rows of all blocks in the order in which tokens had them."""
    rows = np.concatenate(blocks)
    out = np.empty_like(rows)
    out[order] = rows
    return out
