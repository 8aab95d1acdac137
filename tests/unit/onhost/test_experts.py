"""A layer of experts: what it computes, its gradient, its router, and experts on several ranks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from testbed.onhost.jobs.experts import Experts, mix, mix_backward, route
from testbed.onhost.jobs.layers import feed_forward, rms_norm
from testbed.onhost.jobs.model import Model, Shape
from testbed.onhost.jobs.split_model import PartModel, Split, cut
from testbed.onhost.jobs.text import batch

DIM, HIDDEN, EXPERTS, TOKENS = 8, 6, 6, 40
SHAPE = Shape(dim=8, layers=2, heads=2, hidden=6, sequence=5, experts=4)


@pytest.fixture
def layer():
    """A layer in double precision, and rows of tokens."""
    random = np.random.default_rng(5)
    sizes = (DIM,), (DIM, EXPERTS), (EXPERTS, DIM, 2 * HIDDEN), (EXPERTS, HIDDEN, DIM)
    norm, router, into, out_of = (random.normal(0, 0.5, size) for size in sizes)
    return Experts(norm + 1, router, into, out_of), random.normal(0, 1, (TOKENS, DIM))


def empty_like(block):
    tensors = block.norm, block.router, block.into, block.out_of
    return Experts(*(np.full_like(tensor, np.nan) for tensor in tensors))


def test_each_token_gets_what_its_most_likely_expert_makes_of_it(layer):
    block, x = layer
    out, routed = mix(x, block)
    assert len(set(routed.chosen)) > 2
    rows, _ = rms_norm(x, block.norm)
    for token, row in enumerate(rows):
        scores = np.exp(row @ block.router)
        expert = int(np.argmax(scores))
        given, _ = feed_forward(row[None], block.into[expert], block.out_of[expert])
        expected = given[0] * scores[expert] / scores.sum()
        np.testing.assert_allclose(out[token], expected, rtol=1e-12)


def test_the_router_takes_the_first_of_equals_and_a_token_has_its_expert_in_any_batch(layer):
    block, x = layer
    _, chosen = route(np.ones((3, DIM)), np.zeros((DIM, EXPERTS)))
    assert chosen.tolist() == [0, 0, 0]
    rows, _ = rms_norm(x, block.norm)
    _, together = route(rows, block.router)
    _, backwards = route(rows[::-1], block.router)
    apart = [route(row[None], block.router)[1][0] for row in rows]
    assert together.tolist() == backwards[::-1].tolist() == apart


@pytest.mark.parametrize("name", ["norm", "router", "into", "out_of", "x"])
def test_the_gradient_is_the_numerical_slope(layer, name):
    block, x = layer
    weights = np.random.default_rng(6).normal(0, 1, x.shape)
    gradients = empty_like(block)
    _, routed = mix(x, block)
    d_x = mix_backward(weights, block, routed, gradients)
    tensor = x if name == "x" else getattr(block, name)
    found = d_x if name == "x" else getattr(gradients, name)
    assert np.isfinite(found).all()
    for flat in np.argsort(-np.abs(found).ravel())[:12]:
        place = np.unravel_index(flat, tensor.shape)
        value, sums = tensor[place], []
        for moved in (1e-6, -1e-6):
            tensor[place] = value + moved
            out, again = mix(x, block)
            assert (again.chosen == routed.chosen).all(), "no token is on the edge of an expert"
            sums.append(np.sum(out * weights))
        tensor[place] = value
        assert (sums[0] - sums[1]) / 2e-6 == pytest.approx(found[place], rel=1e-5)


def test_an_expert_without_tokens_has_no_gradient(layer):
    block, x = layer
    block.router[:] = 0
    gradients = empty_like(block)
    _, routed = mix(x, block)
    mix_backward(np.ones_like(x), block, routed, gradients)
    assert (gradients.into[1:] == 0).all() and (gradients.out_of[1:] == 0).all()
    assert (gradients.into[0] != 0).any()


class Between:
    """An exchange between ranks in threads."""

    def __init__(self, ranks):
        self._all, self._blocks = Barrier(ranks, timeout=20), [None] * ranks

    def of(self, rank):
        def exchange(blocks, lengths):
            self._blocks[rank] = list(blocks)
            self._all.wait()
            found = [of_other[rank] for of_other in self._blocks]
            self._all.wait()
            assert lengths is None or [len(block) for block in found] == list(lengths)
            return found

        return exchange


@pytest.mark.parametrize(("holders", "shares"), [(2, 1), (4, 1), (2, 2)])
def test_experts_on_several_ranks_compute_what_one_rank_with_all_of_them_does(holders, shares):
    """In double precision: loss, and the gradient of each part, summed where it is in common."""
    parameters, expected = np.zeros((2, SHAPE.parameters))
    model = Model(SHAPE, np.float64)
    model.initialise(parameters, 3)
    given = [batch(3, 0, holder, 2, SHAPE.sequence) for holder in range(holders)]
    whole = [np.concatenate(rows) for rows in zip(*given, strict=True)]
    loss = model.loss_and_gradient(parameters, *whole, expected, lambda: None)
    exchanges = [Between(holders) for _ in range(shares)]
    sums = [Between(shares) for _ in range(holders)]

    def of(number):
        holder, share = divmod(number, shares)
        split = Split(0, 1, share, shares, holder, holders)
        add = sums[holder].of(share)

        def sum_up(part):
            return sum(add([part] * shares, None))

        exchange = exchanges[share].of(holder)
        part = PartModel(SHAPE, split, sum_up, lambda: None, np.float64, exchange)
        own = np.zeros(split.parameters(SHAPE))
        cut(parameters, own, SHAPE, split)
        _, kept, lost = part.forward(own, *given[holder], None)
        gradient = np.full_like(own, np.nan)
        part.backward(own, kept, None, gradient)
        return split, lost, gradient / holders

    with ThreadPoolExecutor(holders * shares) as threads:
        found = list(threads.map(of, range(holders * shares)))
    assert np.mean([lost for split, lost, _ in found if split.share == 0]) == pytest.approx(loss)
    for split, _, gradient in found:
        wanted = np.zeros_like(gradient)
        cut(expected, wanted, SHAPE, split)
        own = split.of_experts(SHAPE)
        assert own == 2 * 4 // holders * 3 * 8 * 6 // shares
        common = sum(g[own:] for of_other, _, g in found if of_other.share == split.share)
        np.testing.assert_allclose(gradient[:own], wanted[:own], rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(common, wanted[own:], rtol=1e-9, atol=1e-14)
        assert (wanted[:own] != 0).any()
