"""Training split over a mesh, in processes over loopback: the curve of the undivided model."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from testbed.jobs.hybrid import Hybrid
from testbed.jobs.hybrid_descriptors import HybridOptions, HybridPaceOptions
from testbed.onhost.communication.mesh import MeshGroups
from testbed.onhost.jobs.hybrid import Options, Replica
from testbed.onhost.jobs.model import Model, Shape
from testbed.onhost.jobs.optimiser import Adam
from testbed.onhost.jobs.split_model import cut
from testbed.onhost.jobs.state import State
from testbed.onhost.jobs.text import batch
from tests.unit.onhost.meshes import at_once, control, open_meshes

SIZE = {"dim": 16, "layers": 2, "heads": 2, "hidden": 24, "sequence": 8}
WRONG = str(Path(__file__).with_name("wrong_values.py"))
SEED, BATCH, STEPS = 7, 4, 20
MESHES = [dict(zip(("dp", "pp", "tp"), sizes, strict=True)) for sizes in product((1, 2), repeat=3)]
OF_EXPERTS = [{"ep": 2}, {"ep": 3}, {"ep": 4}, {"dp": 2, "ep": 2}, {"pp": 2, "ep": 2, "tp": 2}]
"""Meshes of models with experts; along `dp` and `ep` ranks have sequences of their own."""


def options(mesh, **more):
    ranks = int(np.prod([*mesh.values()]))
    experts = {"experts": experts_of(mesh)}
    given = {**SIZE, **experts, "batch": BATCH, "learning_rate": 0.01, "micro_batches": 2, **more}
    return Hybrid(HybridOptions(ranks, mesh, **given)).for_rank()["options"]


def experts_of(mesh):
    return 2 * mesh["ep"] if "ep" in mesh else 0


def shape_of(mesh):
    return Shape(**SIZE, experts=experts_of(mesh))


def replicas_of(mesh):
    return mesh.get("dp", 1) * mesh.get("ep", 1)


def in_one_process(replicas: int, steps: int = STEPS, shape: Shape = Shape(**SIZE)) -> list[float]:  # noqa: B008
    """Return the losses of the undivided model, trained on the sequences of all replicas."""
    model, adam, size = Model(shape), Adam(0.01), shape.parameters
    state, gradient = State(3 * size), np.zeros(size, np.float32)
    model.initialise(state.numbers[:size], SEED)
    losses = []
    for step in range(steps):
        given = [batch(SEED, step, replica, BATCH, shape.sequence) for replica in range(replicas)]
        tokens, targets = (np.concatenate(rows) for rows in zip(*given, strict=True))
        parameters = state.numbers[:size]
        losses.append(model.loss_and_gradient(parameters, tokens, targets, gradient, lambda: None))
        adam.update(state.numbers, state.draft, gradient, 0, step, lambda: None)
        state.commit()
    return losses


def trained(gang, mesh, steps=STEPS, **more):
    """Return the ranks of a job that has ended."""
    told = options(mesh, **more)
    ranks, shares = int(np.prod([*mesh.values()])), mesh.get("tp", 1)
    job = gang("hybrid", told, ranks, hosts=[f"h{rank // shares}" for rank in range(ranks)])
    job.tell("finish", after_step=steps - 1)
    job.join(1)
    job.hear("done", step=steps)
    return job.members


def losses_of(members):
    """Return the losses of each rank that knows them."""
    curves = [[said["loss"] for said in member.of_kind("step")] for member in members]
    return [curve for curve in curves if curve[0] is not None]


def gradients(mesh, order, step=3):
    """Return the summed gradient of each rank, and which part of the model it is of."""
    told = Options(**options(mesh, order=order))
    shape, ranks = shape_of(mesh), int(np.prod([*mesh.values()]))

    def of(rank: MeshGroups):
        replica = Replica(told, shape, SEED, rank, control())
        state = np.zeros(3 * replica.split.parameters(shape), np.float32)
        replica.initialise(state)
        replica.prepare_gradient(step, state)
        replica.sum_gradient()
        return replica.split, replica.values[:-1].copy()

    with open_meshes(
        told.groups, [f"h{rank // mesh.get('tp', 1)}" for rank in range(ranks)]
    ) as meshes:
        return at_once(of, meshes)


@pytest.mark.parametrize("order", ["gpipe", "1f1b"])
@pytest.mark.parametrize("mesh", [*MESHES, *OF_EXPERTS], ids=str)
def test_the_gradient_on_every_rank_is_its_part_of_that_of_the_undivided_model(mesh, order):
    shape, replicas = shape_of(mesh), replicas_of(mesh)
    parameters, expected = np.zeros((2, shape.parameters), np.float32)
    model = Model(shape)
    model.initialise(parameters, SEED)
    given = [batch(SEED, 3, replica, BATCH, shape.sequence) for replica in range(replicas)]
    tokens, targets = (np.concatenate(rows) for rows in zip(*given, strict=True))
    model.loss_and_gradient(parameters, tokens, targets, expected, lambda: None)
    covered = np.zeros(shape.parameters)
    for split, found in gradients(mesh, order):
        wanted = np.zeros_like(found)
        cut(expected, wanted, shape, split)
        # A third of a gradient is rounded, so that of three ranks differs more.
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6 if "ep" in mesh else 2e-7)
        covered += put_back(np.ones_like(found), shape, split)
    assert covered.min() >= mesh.get("dp", 1), "every parameter is on a rank of every replica"


def put_back(part, shape, split):
    """Return a vector of the whole model with a part's values, and zeros elsewhere."""
    places, numbered = np.zeros(part.size), np.arange(1.0, shape.parameters + 1)
    cut(numbered, places, shape, split)
    whole = np.zeros(shape.parameters)
    whole[places.astype(int) - 1] = part
    return whole


@pytest.mark.parametrize(
    "mesh",
    [
        pytest.param(mesh, marks=[] if mesh in (MESHES[-1], {"ep": 4}) else pytest.mark.soak)
        for mesh in (*MESHES, *OF_EXPERTS)
    ],
    ids=str,
)
def test_the_loss_curve_of_every_mesh_is_that_of_the_undivided_model(gang, mesh):
    members = trained(gang, mesh)
    curves = losses_of(members)
    assert len(curves) == len(members) // mesh.get("pp", 1)
    expected = in_one_process(replicas_of(mesh), shape=shape_of(mesh))
    for curve in curves:
        assert curve == pytest.approx(expected, rel=1e-5)
    assert expected[-1] < 0.8 * expected[0]


def digests_of(members):
    return [member.of_kind("done")[-1]["digest"] for member in members]


def test_the_order_of_micro_batches_and_pace_change_no_bit(gang):
    mesh = {"pp": 2}
    pace = {"forward": 0.01, "backward": 0.02, "prepare": 0.01, "update": None}
    runs = [
        trained(gang, mesh, steps=3, micro_batches=4, order=order, pace=given)
        for order, given in (("gpipe", None), ("1f1b", None), ("1f1b", HybridPaceOptions(**pace)))
    ]
    first, *others = map(digests_of, runs)
    assert others == [first, first] and len(set(first)) == 2
    for member in runs[-1]:
        for said in member.of_kind("step"):
            assert said["end"] - said["begin"] >= 4 * (0.01 + 0.02) + 0.01
            assert said["paced"] > 0 and said["overrun"] >= 0
    assert not any("paced" in said for member in runs[0] for said in member.of_kind("step"))


def test_each_rank_says_what_it_communicated_in_each_step(gang):
    members = trained(gang, {"dp": 2, "pp": 2, "tp": 2}, steps=2, order="gpipe")
    forth, back = ("sendrecv", "send"), ("sendrecv", "receive")
    for rank, member in enumerate(members):
        for said in member.of_kind("operations"):
            at = {name: rank // stride % 2 for name, stride in (("dp", 4), ("pp", 2), ("tp", 1))}
            assert len(said["groups"]) == 3 and all(rank in of for of in said["groups"].values())
            names = [row[0][:2] for row in said["operations"]]
            # Two sums each way of one layer and two micro-batches.
            assert (names.count("tp"), names.count("dp")) == (8, 1) and names[-1] == "dp"
            passed = [(row[2], row[8]) for row in said["operations"] if row[0][:2] == "pp"]
            assert passed == (
                [forth, forth, back, back] if not at["pp"] else [back, back, forth, forth]
            )
            for group, _, _, ranks, begin, lit, end, sent, waits in said["operations"]:
                assert ranks == said["groups"][group]
                assert said["begin"] <= begin <= lit <= end <= said["end"]
                assert (sent == 0) == (waits == "receive")


def test_an_operation_has_one_number_on_all_its_ranks_and_no_other_has_it(gang):
    members = trained(gang, {"pp": 2, "tp": 2}, steps=3)
    seen = {}
    for rank, member in enumerate(members):
        for said in member.of_kind("operations"):
            for group, number, *_ in said["operations"]:
                assert rank not in seen.setdefault((group, number), set())
                seen[group, number].add(rank)
    assert {len(ranks) for ranks in seen.values()} == {2}


@pytest.mark.parametrize("mesh", [{"tp": 2}, {"dp": 2}, {"pp": 2}, {"ep": 2}], ids=str)
def test_a_wrong_value_is_found_by_the_rank_that_gets_it(gang, mesh):
    job = gang("hybrid", options(mesh), 2, hosts=["h0", "h1"])
    with job.taken(0, by=job.start([WRONG])):
        job.join(1)
        why = job.members[1].hear("corrupt", generation=1, step=0)["why"]
        assert "the checksum" in why


@pytest.mark.parametrize(
    "mesh", [{"pp": 2}, pytest.param({"dp": 2, "pp": 2}, marks=pytest.mark.soak)], ids=str
)
def test_ranks_that_left_go_on_in_another_generation_with_the_same_bits(gang, mesh):
    ranks = int(np.prod([*mesh.values()]))
    undisturbed = digests_of(trained(gang, mesh, steps=8))
    job = gang("hybrid", options(mesh), ranks)
    job.tell("finish", after_step=7)
    job.join(1)
    job.members[0].hear("step", step=2)
    job.tell("leave", generation=1)
    committed = min(left["committed"] for left in job.hear("left"))
    job.join(2, step=committed)
    job.hear("done", step=8)
    assert digests_of(job.members) == undisturbed


@pytest.mark.parametrize(
    "mesh", [{"pp": 2}, pytest.param({"dp": 2, "pp": 2}, marks=pytest.mark.soak)], ids=str
)
def test_a_job_that_goes_on_from_its_checkpoints_ends_with_the_same_bits(gang, tmp_path, mesh):
    ranks = int(np.prod([*mesh.values()]))
    undisturbed = digests_of(trained(gang, mesh, steps=7))
    first = gang("hybrid", options(mesh), ranks, directory=tmp_path, every=4)
    first.tell("finish", after_step=4)
    first.join(1)
    for member in first.members:
        member.hear("checkpoint", step=4)
    first.close()
    job = gang("hybrid", options(mesh), ranks, directory=tmp_path, every=4)
    for rank, member in enumerate(job.members):
        member.tell("checkpoints", rank=rank)
    assert [report["steps"][0] for report in job.hear("checkpoints")] == [4] * ranks
    job.tell("finish", after_step=6)
    job.join(1, step=4, restore={str(rank): "disk" for rank in range(ranks)})
    job.hear("done", step=7)
    assert digests_of(job.members) == undisturbed


def test_a_rank_is_not_restored_from_another_one_which_has_another_part(gang):
    job = gang("hybrid", options({"pp": 2}), 2)
    job.join(1, restore={"1": 0})
    assert "cannot be restored from rank 0" in job.members[1].hear("refused", do="join")["why"]
