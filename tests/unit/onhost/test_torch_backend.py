"""A training script of plain PyTorch whose groups are on rails, in processes over loopback."""

from __future__ import annotations

import math
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.jobs.program_descriptors import TorchrunOptions
from testbed.jobs.programs import TorchrunOnRails
from tests.unit.onhost.test_rail_mesh import FOUR, AtWork

pytest.importorskip("torch", reason="torch.distributed comes with '.[torch]'")

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "torch" / "dp_pp.py"
RANKS, STEPS, MICRO_BATCHES = 4, 3, 3
PATIENCE = 120.0
"""Seconds in which four processes have imported PyTorch and trained, on a busy machine."""


def environments(ranks=RANKS):
    """Return what torchrun would set for each process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(ranks)}
    return [{**common, "RANK": str(rank)} for rank in range(ranks)]


def command(backend):
    return [sys.executable, str(SCRIPT), "--backend", backend, "--steps", str(STEPS)]


def losses_in(text):
    return re.findall(r"step \d+ loss (\S+)", text)


@pytest.fixture(scope="module")
def losses_of_gloo():
    started = [
        subprocess.Popen(command("gloo"), env={**os.environ, **one}, stdout=subprocess.PIPE)
        for one in environments()
    ]
    try:
        said = [process.communicate(timeout=PATIENCE)[0].decode() for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    losses = losses_in("".join(said))
    assert len(losses) == STEPS
    return losses


def on_rails(gang, mode="on-demand", script=None, mesh=(("dp", 2), ("pp", 2))):
    """Return the script at work in its ranks."""
    ranks = math.prod(size for _, size in mesh)
    each = [
        {"argv": script or command("testbed"), "environment": environment}
        for environment in environments(ranks)
    ]
    job = TorchrunOnRails(TorchrunOptions(ranks, ("script",), mesh=dict(mesh)))
    at_work = AtWork(gang, job, FOUR[:ranks], mode, each=each)
    at_work.gang.join(1)
    at_work.serve(at_work.all_said("program.end"))
    assert not at_work.failure
    at_work.codes = [member.of_kind("program.end")[0]["code"] for member in at_work.gang.members]
    return at_work


def assert_stages_are_left(at_work):
    """Check that each rank left its stages before it reached one of other ranks, and the last.

    Operations of the same ranks may be under way together; the last of their stages is left.
    """
    for member in at_work.gang.members:
        inside = None
        for message in member.events:
            if message["event"] == "stage-reached":
                assert inside is None or inside[::2] == message["stage"][::2]
                inside = message["stage"]
            elif message["event"] == "stage-left":
                assert message["stage"] == inside
                inside = None
        assert inside is None


def output_of(at_work, stream="stdout"):
    said = [one for member in at_work.gang.members for one in member.of_kind("output")]
    return "".join(one["text"] for one in said if one["stream"] == stream)


@pytest.mark.parametrize("mode", ["on-demand", "provisioned"])
def test_a_script_that_nobody_changed_has_the_losses_that_it_has_with_gloo(
    gang, losses_of_gloo, mode
):
    at_work = on_rails(gang, mode)
    assert losses_in(output_of(at_work)) == losses_of_gloo, output_of(at_work, "stderr")
    assert sum(bool(move.remove) for move in at_work.moves) >= 2 * 2 * STEPS
    assert_stages_are_left(at_work)
    for member in at_work.gang.members:
        groups = [one["stage"][0][:2] for one in member.of_kind("stage-reached")]
        assert groups.count("pp") == 1 + 1 + STEPS * 2 * MICRO_BATCHES
        assert groups.count("dp") > 1 + STEPS


def test_a_group_that_the_job_does_not_have_is_refused_by_name(gang):
    script = "import torch.distributed as dist; dist.init_process_group('testbed'); "
    script += "dist.new_group([0, 3])"
    at_work = on_rails(gang, script=[sys.executable, "-c", script])
    assert "ranks [0, 3] are no group of the job's mesh" in output_of(at_work, "stderr")


OTHERS = """
import torch, torch.distributed as dist
dist.init_process_group("testbed")
rank, groups = dist.get_rank(), [dist.new_group([n, n + 2]) for n in range(2)]
group, other = groups[rank % 2], (rank + 2) % 4
dist.barrier(group=group)
told = torch.tensor([float(rank)])
dist.broadcast(told, rank % 2, group=group)
assert told.item() == rank % 2
each = [torch.empty(2) for _ in range(2)]
dist.all_gather(each, torch.full((2,), float(rank)), group=group)
assert [one[0].item() for one in each] == [rank % 2, rank % 2 + 2]
sums = [torch.full((3,), float(rank + by)) for by in (0, 10)]
for work in [dist.all_reduce(one, group=group, async_op=True) for one in sums]:
    assert work.get_future().wait()[0].numel() == 3
assert [one[0].item() for one in sums] == [2 * (rank % 2) + 2, 2 * (rank % 2) + 22]
sent, came = torch.full((100_000,), float(rank)), torch.empty(100_000)
pair = [dist.P2POp(dist.isend, sent, other, group), dist.P2POp(dist.irecv, came, other, group)]
for work in reversed(dist.batch_isend_irecv(pair)):
    work.wait()
assert came.eq(other).all()
dist.destroy_process_group()
"""


def test_every_kind_of_operation_is_right_whatever_the_script_waits_for(gang):
    at_work = on_rails(gang, script=[sys.executable, "-c", OTHERS])
    assert at_work.codes == [0] * RANKS, output_of(at_work, "stderr")
    assert_stages_are_left(at_work)


BUCKETS = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("testbed")
rank, groups = dist.get_rank(), [dist.new_group([n, n + 2]) for n in range(2)]
torch.manual_seed(rank % 2)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])
whole = DistributedDataParallel(model, process_group=groups[rank % 2], bucket_cap_mb=CAP)
inputs = [torch.full((2, 64), 0.1 * (one + 1)) for one in (rank % 2, rank % 2 + 2)]
for _ in range(2):
    model.zero_grad()
    whole(inputs[rank // 2]).sum().backward()
gradients = [one.grad.clone() for one in model.parameters()]
model.zero_grad()
for one in inputs:
    model(one).sum().backward()
for mine, of_both in zip(gradients, model.parameters()):
    assert torch.allclose(mine, of_both.grad / 2, rtol=1e-5)
dist.destroy_process_group()
"""


def test_each_bucket_of_gradients_is_a_stage_of_its_own(gang):
    """Four layers of 16 640 bytes are one bucket, or four from the second iteration of two on."""
    counts = []
    for megabytes in ("25", "0.01"):
        script = BUCKETS.replace("CAP", megabytes)
        at_work = on_rails(gang, script=[sys.executable, "-c", script])
        assert at_work.codes == [0] * RANKS, output_of(at_work, "stderr")
        assert_stages_are_left(at_work)
        reached = [member.of_kind("stage-reached") for member in at_work.gang.members]
        counts.append([sum(e["stage"][0].startswith("dp") for e in each) for each in reached])
    assert [few + 3 for few in counts[0]] == counts[1]


IN_PAIRS = """
import torch, torch.distributed as dist
dist.init_process_group("testbed")
rank, n = dist.get_rank(), dist.get_world_size()
group, ranks = dist.new_group(list(range(n))), torch.arange(float(n))
dist.barrier(group=group)
for size in (1, 3, 4, 10_007):
    for kind in (torch.float32, torch.float64, torch.int64, torch.uint8, torch.float16):
        summed = (torch.arange(size) % 7 + rank).to(kind)
        dist.all_reduce(summed, group=group)
        assert summed.equal((n * (torch.arange(size) % 7) + sum(range(n))).to(kind)), (size, kind)
    mean = torch.full((size,), float(rank))
    dist.all_reduce(mean, dist.ReduceOp.AVG, group=group)
    assert torch.allclose(mean, ranks.mean())
    for root in range(n):
        for kind in (torch.float32, torch.bfloat16, torch.bool, torch.complex64):
            told = torch.full((size,), rank, dtype=torch.float32).sub_(1).to(kind)
            dist.broadcast(told, root, group=group)
            assert told.equal(torch.full((size,), root - 1, dtype=torch.float32).to(kind))
    each = [torch.empty(size, dtype=torch.int16) for _ in range(n)]
    dist.all_gather(each, torch.full((size,), rank, dtype=torch.int16), group=group)
    assert all(one.eq(number).all() for number, one in enumerate(each))
    whole = torch.empty(n * size)
    dist.all_gather_into_tensor(whole, torch.full((size,), float(rank)), group=group)
    assert whole.view(n, size).eq(ranks[:, None]).all()
    kept, given = torch.empty(size), ranks.repeat_interleave(size) + rank
    dist.reduce_scatter_tensor(kept, given, group=group)
    assert kept.eq(n * rank + ranks.sum()).all()
    assert given.equal(ranks.repeat_interleave(size) + rank)
    dist.reduce_scatter(kept, list(given.chunk(n)), dist.ReduceOp.AVG, group=group)
    assert torch.allclose(kept, rank + ranks.mean())
apart = torch.zeros(6, 4)[:, ::2]
apart += rank
works = [dist.all_reduce(apart, group=group, async_op=True) for _ in range(2)]
assert works[1].get_future().wait()[0].eq(n * ranks.sum()).all()
"""


@pytest.mark.parametrize("ranks", [3, 4])
def test_a_longer_group_meets_in_pairs_and_has_every_value_right(gang, ranks):
    at_work = on_rails(gang, script=[sys.executable, "-c", IN_PAIRS], mesh=[("dp", ranks)])
    assert at_work.codes == [0] * ranks, output_of(at_work, "stderr")
    assert_stages_are_left(at_work)
    assert {len(move.add) for move in at_work.moves} == {1}, "a circuit at a time"


REPLICAS = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("testbed")
rank, group = dist.get_rank(), dist.new_group([0, 1, 2, 3])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
whole = DistributedDataParallel(model, process_group=group)
for _ in range(4):
    whole(torch.full((2, 8), 0.1 * rank)).sum().backward()
gradients = [one.grad.clone() for one in model.parameters()]
model.zero_grad()
for other in range(4):
    model(torch.full((2, 8), 0.1 * other)).sum().backward()
for mine, of_all in zip(gradients, model.parameters()):
    assert torch.allclose(mine, 4 * of_all.grad / 4, rtol=1e-5)
"""


@pytest.mark.parametrize("mode", ["on-demand", "provisioned"])
def test_gradients_that_four_ranks_sum_in_pairs_are_three_stages_an_iteration(gang, mode):
    at_work = on_rails(gang, mode, [sys.executable, "-c", REPLICAS], [("dp", 4)])
    assert at_work.codes == [0] * RANKS, output_of(at_work, "stderr")
    assert_stages_are_left(at_work)
    for rank, member in enumerate(at_work.gang.members):
        inner, outer = (sorted((rank, rank ^ far)) for far in (1, 2))
        reached = [said["stage"][2] for said in member.of_kind("stage-reached")]
        assert reached[-3 * 3 :] == [outer, inner, outer] * 3
        left = [said["stage"][2] for said in member.of_kind("stage-left")]
        following = [said.get("following", [None] * 3)[2] for said in member.of_kind("stage-left")]
        assert [*following[-3:-1], left[-1]] == [inner, outer, outer], "the next step is known"


REFUSED = """
import torch, torch.distributed as dist
dist.init_process_group("testbed")
rank = dist.get_rank()
group, one, op = dist.new_group([0, 1, 2]), torch.ones(4), dist.ReduceOp
wanted = [
    lambda: dist.reduce(one, 0, group=group),
    lambda: dist.gather(one, [one] * 3 if rank == 0 else None, 0, group=group),
    lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3), group=group),
    lambda: dist.send(one, (rank + 1) % 3, group=group),
    lambda: dist.recv(one, (rank + 1) % 3, group=group),
    lambda: dist.all_reduce(one, op.MAX, group=group),
    lambda: dist.all_reduce(one.int(), op.AVG, group=group),
    lambda: dist.all_reduce(one.bfloat16(), group=group),
    lambda: dist.all_reduce(one.to_sparse(), group=group),
    lambda: dist.reduce_scatter_tensor(one, one, group=group),
    lambda: dist.all_gather_into_tensor(torch.ones(13), one, group=group),
]
for number, want in enumerate(wanted):
    try:
        want()
    except ValueError as error:
        if rank == 0:
            print(number, error)
dist.barrier(group=group)
"""

WHO = "group dp0 of 3 ranks on a rail"
HAS = "it has all_reduce, reduce_scatter, all_gather, broadcast and barrier; make groups of two"


def test_what_ranks_that_meet_in_pairs_cannot_do_is_refused_by_name_as_it_is_called(gang):
    at_work = on_rails(gang, script=[sys.executable, "-c", REFUSED], mesh=[("dp", 3)])
    assert at_work.codes == [0] * 3, output_of(at_work, "stderr")
    for number, (said, words) in enumerate(
        zip(
            output_of(at_work).splitlines(),
            [
                f"{WHO} cannot do reduce: {HAS}",
                f"{WHO} cannot do gather: {HAS}",
                f"{WHO} cannot do all_to_all_single: {HAS}",
                f"{WHO} cannot do send: {HAS}",
                f"{WHO} cannot do recv: {HAS}",
                f"all_reduce on {WHO} cannot do MAX of torch.float32: it has SUM, and AVG of float",
                f"all_reduce on {WHO} cannot do AVG of torch.int32: it has SUM, and AVG of float",
                f"all_reduce on {WHO} cannot sum torch.bfloat16, for which NumPy has no numbers",
                f"{WHO} takes dense tensors in the memory of the host, and one is torch.sparse_coo",
                f"reduce_scatter on {WHO} is given 4 elements, and 3 ranks keep 4 each",
                f"all_gather on {WHO} has room for 13 elements, and 3 ranks give 4 each",
            ],
            strict=True,
        )
    ):
        assert said.startswith(f"{number} {words}"), said


IN_A_HURRY = """
import time, torch, torch.distributed as dist
from testbed.onhost.script.rails import Rails
drain = Rails._drain
Rails._drain = lambda rails: (time.sleep(0.5), drain(rails))
dist.init_process_group("testbed")
rank, groups = dist.get_rank(), [dist.new_group([n, n + 2]) for n in range(2)]
dist.all_reduce(torch.ones(1), group=groups[rank % 2])
"""


def test_a_script_that_ends_at_once_has_left_its_last_stage(gang):
    at_work = on_rails(gang, script=[sys.executable, "-c", IN_A_HURRY])
    assert at_work.codes == [0] * RANKS, output_of(at_work, "stderr")
    assert_stages_are_left(at_work)
