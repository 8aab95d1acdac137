"""Training that nothing disturbs, in one process: what ranks must end with, whatever happened."""

from __future__ import annotations

import numpy as np

from testbed.onhost.jobs.model import Model, Shape
from testbed.onhost.jobs.optimiser import Adam
from testbed.onhost.jobs.state import State
from testbed.onhost.jobs.text import batch
from tests.unit.onhost.rank_driver import Gang

SIZE = {"dim": 16, "layers": 2, "heads": 2, "hidden": 24, "sequence": 8}
TRAIN = {**SIZE, "batch": 2, "learning_rate": 0.01}
SEED = 7


def reference(ranks: int, steps: int) -> tuple[State, list[float]]:
    """Train in one process, summing chunk by chunk in the ring's order."""
    shape = Shape(**SIZE)
    model, adam, size = Model(shape), Adam(0.01), shape.parameters
    state = State(3 * size)
    model.initialise(state.numbers[:size], SEED)
    width = -(-(size + 1) // ranks)
    losses = []
    for step in range(steps):
        values = np.empty((ranks, size + 1), np.float32)
        for rank in range(ranks):
            tokens, targets = batch(SEED, step, rank, 2, shape.sequence)
            values[rank, -1] = model.loss_and_gradient(
                state.numbers[:size], tokens, targets, values[rank, :-1], lambda: None
            )
        total = np.concatenate(
            [
                sum(values[(chunk + hop) % ranks, start : start + width] for hop in range(ranks))
                for chunk, start in enumerate(range(0, size + 1, width))
            ]
        )
        mean = total * np.float32(1 / ranks)
        adam.update(state.numbers, state.draft, mean[:-1], 0, step, lambda: None)
        state.commit()
        losses.append(float(mean[-1]))
    return state, losses


def ends_undisturbed(gang: Gang, steps: int) -> None:
    """Hear the end of a job: every rank must hold what one undisturbed process holds."""
    done = gang.hear("done", step=steps)
    state, losses = reference(len(gang.members), steps)
    assert {event["digest"] for event in done} == {state.sha256()}
    assert {event["loss"] for event in done} == {losses[-1]}
