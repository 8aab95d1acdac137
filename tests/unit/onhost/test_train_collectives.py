"""Training whose gradients are summed by schedules: the same bits as on paper, the same curve."""

from __future__ import annotations

import random

import numpy as np
import pytest

from testbed.collectives.catalogue import all_reduce
from testbed.collectives.forwarding import forwarded
from testbed.collectives.schedule import to_json
from testbed.onhost.communication.rank_schedule import RankSchedule
from testbed.onhost.jobs.model import Model, Shape
from testbed.onhost.jobs.optimiser import Adam
from testbed.onhost.jobs.state import State
from testbed.onhost.jobs.text import batch
from testbed.onhost.jobs.verified_sum import VerifiedVector
from tests.unit.collectives.execute import execute
from tests.unit.onhost.broken_rounds import DOOMED, await_fate

SIZE = {"dim": 16, "layers": 1, "heads": 2, "hidden": 24, "sequence": 8}
TRAIN = {**SIZE, "batch": 1, "learning_rate": 0.01}
SEED, RANKS, STEPS = 7, 4, 6


def options(name: str) -> dict:
    return {**TRAIN, "schedule": to_json(all_reduce(name, RANKS, 1))}


def on_paper(names: list[str]) -> tuple[State, list[float]]:
    """Train in one process, by one schedule after the other, one step each."""
    shape = Shape(**SIZE)
    model, adam, size = Model(shape), Adam(0.01), shape.parameters
    state = State(3 * size)
    model.initialise(state.numbers[:size], SEED)
    losses = []
    for step, name in enumerate(names):
        schedule = all_reduce(name, RANKS, 1)
        sums = VerifiedVector(size + 2, RANKS, schedule.chunks)
        buffers = []
        for rank in range(RANKS):
            values = np.zeros(size + 2, np.float32)
            tokens, targets = batch(SEED, step, rank, 1, shape.sequence)
            values[-1] = model.loss_and_gradient(
                state.numbers[:size], tokens, targets, values[:size], lambda: None
            )
            sums.fill(values, step, rank)
            buffers.append(sums.vector.copy())
        sums.vector[:] = execute(schedule, np.array(buffers))[0]
        mean = np.concatenate([place for _, place in sums.places]) * np.float32(1 / RANKS)
        adam.update(state.numbers, state.draft, mean[:size], 0, step, lambda: None)
        state.commit()
        losses.append(float(mean[-1]))
    return state, losses


@pytest.mark.parametrize("name", ["rhd", "direct", "stragglar"])
def test_every_rank_ends_with_the_bits_of_one_process_that_adds_in_the_order_of_the_schedule(
    gang, name
):
    job = gang("train", options(name), RANKS)
    job.tell("finish", after_step=STEPS - 1)
    job.join(1)
    state, losses = on_paper([name] * STEPS)
    assert {done["digest"] for done in job.hear("done")} == {state.sha256()}
    for member in job.members:
        steps = member.of_kind("step")
        assert [step["loss"] for step in steps] == losses
        assert {step["algorithm"] for step in steps} == {name}


def test_the_loss_curve_with_any_collective_is_equal_up_to_rounding(gang):
    """Sums of four float32 in another order differ by a few of their last bits, 2⁻²⁴ each."""
    job = gang("train", TRAIN, RANKS)
    job.tell("finish", after_step=STEPS - 1)
    job.join(1)
    job.hear("done")
    own_ring = [step["loss"] for step in job.members[0].of_kind("step")]
    for name in ("ring", "rhd", "direct", "stragglar"):
        _, losses = on_paper([name] * STEPS)
        assert losses == pytest.approx(own_ring, rel=1e-5)
    assert own_ring[-1] < 0.99 * own_ring[0]


def test_all_ranks_change_the_collective_after_the_same_step_although_notified_one_by_one(gang):
    job = gang("train", options("ring"), RANKS)
    choice = {"number": 1, "schedule": to_json(all_reduce("stragglar", RANKS, 1))}
    job.join(1)
    job.members[0].tell("choose", **choice)
    known_to_one = job.hear("step")[0]["step"] + 3
    job.hear("step", step=known_to_one)
    for member in job.members[1:]:
        member.tell("choose", **choice)
    changed = {said["step"] for said in job.hear("step", choice=1)}
    assert len(changed) == 1 and min(changed) > known_to_one
    last = min(changed) + 20
    job.tell("finish", after_step=last)
    ends = {(done["step"], done["digest"]) for done in job.hear("done")}
    state, _ = on_paper(["ring"] * min(changed) + ["stragglar"] * (last + 1 - min(changed)))
    assert ends == {(last + 1, state.sha256())}
    names = [said["algorithm"] for said in job.members[2].of_kind("step")]
    assert names == ["ring"] * min(changed) + ["stragglar"] * (last + 1 - min(changed))


def test_a_new_generation_begins_with_the_configured_schedule_and_gets_the_choice_again(
    gang,
):
    job = gang("train", options("ring"), RANKS)
    job.join(1)
    job.tell("choose", number=1, schedule=to_json(all_reduce("rhd", RANKS)))
    job.hear("step", choice=1)
    job.tell("leave", generation=1)
    committed = min(left["committed"] for left in job.hear("left"))
    job.join(2, step=committed)
    assert {said["algorithm"] for said in job.hear("step", generation=2)} == {"ring"}
    after = job.hear("step", generation=2, choice=1)
    assert {said["step"] for said in after} == {committed + 1}
    assert len({said["digest"] for said in after}) == 1


def test_a_schedule_for_other_ranks_is_refused(gang):
    job = gang("train", options("ring"), RANKS)
    job.drop(3)
    job.join(1)
    for refused in job.hear("refused", generation=1):
        assert "a schedule of 4 ranks cannot be used by 3" in refused["why"]


def break_first_step(job, name, rank, number, fate):
    """Lose a rank in a round of the first step, and let all do it again, and two more."""
    doom = ("--round", str(number), "--share", "0.5", "--fate", fate)
    doomed = job.start([DOOMED, *doom])
    job.tell("finish", after_step=2)
    with job.taken(rank, doomed):
        job.join(1)
        await_fate(doomed)
        survivors = [member for member in job.members if member is not doomed]
        for member in survivors:
            member.tell("leave", generation=1)
        assert {member.hear("left")["committed"] for member in survivors} <= {0, 1}
    job.join(2)
    state, _ = on_paper([name] * 3)
    assert {done["digest"] for done in job.hear("done")} == {state.sha256()}


def test_an_interrupted_step_changes_no_parameters(gang):
    part = RankSchedule.of(to_json(all_reduce("stragglar", RANKS, 1)), 3).sends[2]
    job = gang("train", options("stragglar"), RANKS)
    break_first_step(job, "stragglar", 3, part.round, "SIGSTOP")


@pytest.mark.soak
@pytest.mark.parametrize("name", ["ring", "rhd", "direct", "stragglar"])
@pytest.mark.parametrize("fate", ["SIGKILL", "SIGSTOP"])
def test_many_interrupted_steps_change_no_parameters(gang, name, fate):
    schedule = to_json(all_reduce(name, RANKS, 1))
    for rank in range(RANKS):
        part = random.Random(rank).choice(RankSchedule.of(schedule, rank).sends)
        job = gang("train", options(name), RANKS)
        break_first_step(job, name, rank, part.round, fate)
        job.close()


def around(name: str) -> dict:
    """Return the options of training on the circuits of a ring, around which data is forwarded."""
    lit = [(rank, (rank + 1) % RANKS) for rank in range(RANKS)]
    hops = forwarded(all_reduce(name, RANKS, 1), lit, around_straggler=True)
    return {**TRAIN, "schedule": hops.to_json(), "around": True}


@pytest.mark.parametrize("name", ["rhd", "direct", "stragglar"])
def test_a_schedule_forwarded_around_a_ring_ends_with_the_same_bits(gang, name):
    job = gang("train", around(name), RANKS)
    job.tell("finish", after_step=STEPS - 1)
    job.join(1)
    state, losses = on_paper([name] * STEPS)
    assert {done["digest"] for done in job.hear("done")} == {state.sha256()}
    assert [step["loss"] for step in job.members[0].of_kind("step")] == losses


@pytest.mark.parametrize("told", [around("stragglar"), options("stragglar")])
@pytest.mark.parametrize("victim", [1, 2])
def test_a_spare_gets_its_state_from_the_rank_before_it_and_follows_the_schedule(
    gang, told, victim
):
    """Both where ranks are joined in a ring and where each is connected to all."""
    job = gang("train", told, RANKS)
    job.join(1)
    job.hear("step", step=2)
    job.tell("leave", generation=1)
    step = min(said["committed"] for said in job.hear("left"))
    job.replace(victim)
    job.tell("finish", after_step=step + 2)
    job.join(2, step=step, restore={str(victim): (victim - 1) % RANKS})
    ends = {done["digest"] for done in job.hear("done")}
    state, _ = on_paper(["stragglar"] * (step + 3))
    assert ends == {state.sha256()}
    names = {said["algorithm"] for said in job.members[victim].of_kind("step")}
    assert names == {told["schedule"]["name"]}


def test_a_state_from_a_rank_that_is_not_the_one_before_is_refused(gang):
    job = gang("train", around("stragglar"), RANKS)
    job.join(1, restore={"2": 0})
    refused = job.members[2].hear("refused", generation=1)
    assert refused["why"] == "rank 2 cannot be restored from rank 0"
