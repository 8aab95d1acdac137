"""Experts on rails: tokens pass to them over circuits that follow one matching after the other."""

from __future__ import annotations

import json
from collections import defaultdict

import numpy as np
import pytest

from testbed.analysis.rail_monitor import monitor
from testbed.onhost.jobs.model import Model, Shape
from testbed.onhost.jobs.optimiser import Adam
from testbed.onhost.jobs.state import State
from testbed.onhost.jobs.text import batch
from testbed.record.log import read_events
from tests.e2e.commandline import CommandLine

STEPS, SHAPE, BATCH, RANKS = 4, Shape(32, 1, 4, 32, 16, experts=8), 2, 4
SEED = 7
EXCHANGES = 4 * SHAPE.layers + 2
"""In a step: of tokens, and two for the sum of gradients."""
DELAY = 0.060
EXPERIMENT = f"""\
experiment: experts-small
question: Do exchanges between experts survive circuits that follow their matchings?
lab: rails
needs: {{hosts: 4, fabric: circuit}}
jobs:
  main:
    kind: hybrid
    ranks: 8
    ranks_per_host: 2
    mesh: {{ep: {RANKS}, tp: 2}}
    experts: {SHAPE.experts}
    steps: {STEPS}
    layers: {SHAPE.layers}
    dim: {SHAPE.dim}
    hidden: {SHAPE.hidden}
    sequence: {SHAPE.sequence}
    batch: {BATCH}
variants:
  none: {{lab.twin.settle: 0 ms, lab.twin.link_up: 0 ms, lab.twin.loss_of_signal: 2 s}}
  some: {{lab.twin.settle: {DELAY:g} s, lab.twin.link_up: 0 ms, lab.twin.loss_of_signal: 2 s}}
controllers: [{{kind: rails, mode: provisioned}}]
trials: 1
seed: {SEED}
limits: {{trial: 2 min}}
checks:
  some.digest: {{same_as: none.digest}}
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory):
    text = EXPERIMENT.replace("  none: {", "  none: {controllers.0.mode: on-demand, ")
    line = CommandLine(tmp_path_factory.mktemp("experts") / "results")
    summary, run = line.run_text(text, "rails")
    log = (run / "events.jsonl").read_text()
    return summary, run, [json.loads(row) for row in log.splitlines()]


def of_kind(events: list[dict], kind: str) -> list[dict]:
    return [event["data"] for event in events if event["kind"] == kind]


def in_one_process() -> list[float]:
    """Return the losses of the undivided model on the sequences of all ranks with experts."""
    model, size = Model(SHAPE), SHAPE.parameters
    state, gradient, adam = State(3 * size), np.zeros(size, np.float32), Adam(1e-3)
    model.initialise(state.numbers[:size], SEED)
    losses = []
    for step in range(STEPS):
        given = [batch(SEED, step, rank, BATCH, SHAPE.sequence) for rank in range(RANKS)]
        whole = [np.concatenate(rows) for rows in zip(*given, strict=True)]
        now = state.numbers[:size]
        losses.append(model.loss_and_gradient(now, *whole, gradient, lambda: None))
        adam.update(state.numbers, state.draft, gradient, 0, step, lambda: None)
        state.commit()
    return losses


def test_the_losses_are_those_of_one_process_and_the_delay_changes_no_bit(finished) -> None:
    summary, _, events = finished
    assert summary["cleanup"] == "verified"
    assert [check["verdict"] for check in summary["checks"]] == ["passed"]
    expected, steps = in_one_process(), of_kind(events, "step")
    assert len(steps) == 2 * 8 * STEPS
    for said in steps:
        assert said["loss"] == pytest.approx(expected[said["step"]], rel=1e-5)


def test_every_exchange_is_three_matchings_in_which_a_rank_meets_each_of_the_others(
    finished,
) -> None:
    _, _, events = finished
    said = of_kind(events, "operations")
    assert len(said) == 2 * 8 * STEPS
    for one in said:
        (members,) = (ranks for name, ranks in one["groups"].items() if name.startswith("ep"))
        rows = [row for row in one["operations"] if row[2] == "alltoall"]
        met = [next(rank for rank in row[3] if rank != one["rank"]) for row in rows]
        exchanges = [met[first : first + 3] for first in range(0, len(met), 3)]
        assert len(exchanges) == EXCHANGES
        assert all(sorted([*each, one["rank"]]) == members for each in exchanges)
        assert exchanges[1::2] == [each[::-1] for each in exchanges[::2]]
        assert all(row[4] <= row[5] <= row[6] for row in rows), "lit before it begins"


def test_each_pair_has_its_circuit_after_both_have_asked_and_none_goes_under_traffic(
    finished,
) -> None:
    summary, run, events = finished
    asked: defaultdict[tuple, set[int]] = defaultdict(set)
    changed = 0
    for event in events:
        data = event["data"]
        if event["kind"] == "trial.begin":
            asked.clear()
        elif event["kind"] in ("stage.reached", "stage.left"):
            stage = data["stage"] if event["kind"] == "stage.reached" else data.get("following")
            if stage:
                asked[stage[0], stage[1], *stage[2]].add(data["rank"])
        elif event["kind"] == "stage.lit":
            group, number, ranks, _ = data["stage"]
            assert len(ranks) == 2
            assert asked[(group, number, *ranks)] >= set(ranks)
            changed += data["changed"]
    # On both rails two pairs in each of two matchings of an exchange, in both trials.
    assert changed >= 2 * 2 * 2 * 2 * STEPS * EXCHANGES
    seen = monitor(read_events(run / "events.jsonl"))
    assert seen.found == () and seen.not_judged == ()
    assert summary["removed_circuits"]["looked_at"] == seen.removed > changed / 2


def test_an_iteration_is_predicted_with_a_delay_for_two_matchings_of_each_exchange(
    finished,
) -> None:
    summary, _, _ = finished
    metrics = summary["metrics"]
    assert metrics["none.iteration_time"]["predicted"] is None
    # Between the matchings of an exchange nothing is computed, so no change of these is hidden.
    for took in (metrics["some.iteration_time"][name] for name in ("predicted", "median")):
        assert took > 0.95 * 2 * EXCHANGES * DELAY
