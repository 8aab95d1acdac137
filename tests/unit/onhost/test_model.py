from __future__ import annotations

import numpy as np
import pytest

from testbed.onhost.errors import Left
from testbed.onhost.jobs.layers import Rotary
from testbed.onhost.jobs.model import Model, Shape, Weights
from testbed.onhost.jobs.text import batch

SMALL = Shape(dim=8, layers=2, heads=2, hidden=12, sequence=5)
GROUPS = {
    "embedding": lambda w: w.embedding,
    "attention norm": lambda w: w.layers[0].attention.norm,
    "attention into": lambda w: w.layers[0].attention.into,
    "attention out of": lambda w: w.layers[1].attention.out_of,
    "feed norm": lambda w: w.layers[1].feed.norm,
    "feed into": lambda w: w.layers[1].feed.into,
    "feed out of": lambda w: w.layers[0].feed.out_of,
    "output norm": lambda w: w.output_norm,
    "output": lambda w: w.output,
}


def go_on():
    pass


@pytest.fixture(scope="module")
def worked():
    """A model in double precision at a place where nothing is symmetric, and its gradient."""
    model = Model(SMALL, np.float64)
    parameters = np.empty(SMALL.parameters)
    model.initialise(parameters, seed=3)
    parameters += np.random.default_rng(4).normal(0, 0.2, parameters.size)
    tokens, targets = batch(seed=5, step=0, rank=0, sequences=2, length=SMALL.sequence)
    gradient = np.full_like(parameters, np.nan)
    model.loss_and_gradient(parameters, tokens, targets, gradient, go_on)
    return model, parameters, tokens, targets, gradient


@pytest.mark.parametrize("group", GROUPS)
def test_the_gradient_equals_the_numerical_slope_of_the_loss(worked, group):
    model, parameters, tokens, targets, gradient = worked
    moved, scratch = parameters.copy(), np.empty_like(parameters)
    tensor = GROUPS[group](Weights.of(moved, SMALL))
    expected = GROUPS[group](Weights.of(gradient, SMALL))
    places = np.argsort(-np.abs(expected).ravel())[:12]  # the steepest, so that none is trivial
    for place in (np.unravel_index(flat, tensor.shape) for flat in places):
        value, losses = tensor[place], []
        for moved_by in (1e-6, -1e-6):
            tensor[place] = value + moved_by
            losses.append(model.loss_and_gradient(moved, tokens, targets, scratch, go_on))
        tensor[place] = value
        assert expected[place] != 0
        assert (losses[0] - losses[1]) / 2e-6 == pytest.approx(expected[place], rel=1e-4, abs=1e-8)


def test_the_gradient_is_non_zero_for_every_parameter(worked):
    assert np.isfinite(worked[-1]).all()


def test_the_weight_tensors_fill_the_parameter_vector_exactly():
    vector = np.zeros(SMALL.parameters)
    Weights.of(vector, SMALL).output[:] = 1
    assert vector[-1] == 1
    with pytest.raises(ValueError, match="reshape"):
        Weights.of(vector[:-1], SMALL)


def test_attention_is_causal(worked):
    model, parameters, tokens, *_ = worked
    changed = tokens.copy()
    changed[:, 3] = (changed[:, 3] + 1) % 256
    before, after = model.logits(parameters, tokens), model.logits(parameters, changed)
    assert (before[:, :3] == after[:, :3]).all()
    assert (before[:, 3:] != after[:, 3:]).any(axis=-1).all()


def test_sequences_of_a_batch_are_independent(worked):
    model, parameters, tokens, *_ = worked
    together = model.logits(parameters, tokens)
    alone = model.logits(parameters, tokens[1:])
    np.testing.assert_allclose(together[1:], alone, rtol=1e-12)


def test_rotary_products_depend_only_on_the_distance_of_positions():
    rotary = Rotary.of(length=20, channels=8, dtype=np.float64)
    query, key = np.random.default_rng(0).normal(size=(2, 8))
    products = rotary.turn(np.tile(query, (20, 1))) @ rotary.turn(np.tile(key, (20, 1))).T
    for distance in (0, 1, 7):
        diagonal = np.diagonal(products, distance)
        np.testing.assert_allclose(diagonal, diagonal[0], rtol=1e-10)
    assert products[0, 0] == pytest.approx(query @ key)
    assert abs(products[0, 1] - products[0, 0]) > 1e-3


def test_rotary_backward_inverts_forward():
    rotary = Rotary.of(length=6, channels=4, dtype=np.float64)
    x = np.random.default_rng(1).normal(size=(2, 3, 6, 4))
    np.testing.assert_allclose(rotary.turn_back(rotary.turn(x)), x, rtol=1e-12)


def test_the_same_training_step_gives_the_same_bits():
    model = Model(SMALL)
    parameters = np.empty(SMALL.parameters, np.float32)
    model.initialise(parameters, seed=1)
    tokens, targets = batch(seed=1, step=2, rank=3, sequences=2, length=SMALL.sequence)
    gradients = [np.empty_like(parameters) for _ in range(2)]
    losses = [model.loss_and_gradient(parameters, tokens, targets, g, go_on) for g in gradients]
    assert losses[0] == losses[1]
    assert gradients[0].tobytes() == gradients[1].tobytes()


def test_gradients_in_single_and_double_precision_agree(worked):
    _, parameters, tokens, targets, expected = worked
    gradient = np.empty(SMALL.parameters, np.float32)
    Model(SMALL).loss_and_gradient(parameters.astype(np.float32), tokens, targets, gradient, go_on)
    np.testing.assert_allclose(gradient, expected, atol=2e-5)


def test_computation_can_be_aborted_between_any_two_blocks(worked):
    model, parameters, tokens, targets, gradient = worked
    calls = []
    model.loss_and_gradient(
        parameters, tokens, targets, np.empty_like(gradient), lambda: calls.append(1)
    )
    assert len(calls) >= 4 * SMALL.layers

    for last in range(1, len(calls) + 1):
        left = iter(range(1, last))

        def raise_if_left(left=left):
            if next(left, None) is None:
                raise Left

        with pytest.raises(Left):
            model.loss_and_gradient(
                parameters, tokens, targets, np.empty_like(gradient), raise_if_left
            )


def test_attention_heads_need_an_even_number_of_channels():
    with pytest.raises(ValueError, match="even number of channels"):
        Shape(dim=12, layers=1, heads=4, hidden=8, sequence=4)
