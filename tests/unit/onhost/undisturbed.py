"""Training that nothing disturbs, in one process: what ranks must end with, whatever happened."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from testbed.onhost.jobs.model import Model, Shape
from testbed.onhost.jobs.optimiser import Adam
from testbed.onhost.jobs.state import Numbers, State
from testbed.onhost.jobs.text import batch
from tests.unit.onhost.rank_driver import Gang

SIZE = {"dim": 16, "layers": 2, "heads": 2, "hidden": 24, "sequence": 8}
TRAIN = {**SIZE, "batch": 2, "learning_rate": 0.01}
SEED = 7


def reference(
    ranks: int,
    steps: int,
    later: Mapping[int, int] | None = None,
    *,
    size: Mapping[str, int] = SIZE,
    sequences: int = 2,
    seed: int = SEED,
    rate: float = 0.01,
) -> tuple[State, list[float]]:
    """Train in one process, summing chunk by chunk in the ring's order.

    From the steps in `later` on there are so many ranks as it says, with the sequences of all.
    """
    shape = Shape(**size)
    model, adam, width = Model(shape), Adam(rate), shape.parameters
    state = State(3 * width)
    model.initialise(state.numbers[:width], seed)
    losses, everything = [], ranks * sequences
    for step in range(steps):
        ranks = (later or {}).get(step, ranks)
        values = np.empty((ranks, width + 1), np.float32)
        for rank in range(ranks):
            share = len(range(rank, everything, ranks))
            tokens, targets = batch(seed, step, rank, share, shape.sequence)
            values[rank, -1] = model.loss_and_gradient(
                state.numbers[:width], tokens, targets, values[rank, :-1], lambda: None
            )
            if everything % ranks:
                values[rank] *= np.float32(share * ranks / everything)
        mean = _summed(values) * np.float32(1 / ranks)
        adam.update(state.numbers, state.draft, mean[:-1], 0, step, lambda: None)
        state.commit()
        losses.append(float(mean[-1]))
    return state, losses


def _summed(values: Numbers) -> Numbers:
    """Return the sum over the ranks, each chunk in the order in which it goes around the ring."""
    ranks, size = values.shape
    width = -(-size // ranks)
    return np.concatenate(
        [
            sum(values[(chunk + hop) % ranks, start : start + width] for hop in range(ranks))
            for chunk, start in enumerate(range(0, size, width))
        ]
    )


def ends_undisturbed(gang: Gang, steps: int) -> None:
    """Hear the end of a job: every rank must hold what one undisturbed process holds."""
    done = gang.hear("done", step=steps)
    state, losses = reference(len(gang.members), steps)
    assert {event["digest"] for event in done} == {state.sha256()}
    assert {event["loss"] for event in done} == {losses[-1]}
