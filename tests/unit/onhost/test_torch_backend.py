"""A training script of plain PyTorch whose groups are on rails, in processes over loopback."""

from __future__ import annotations

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


def environments():
    """Return what torchrun would set for each process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(RANKS)}
    return [{**common, "RANK": str(rank)} for rank in range(RANKS)]


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
    each = [
        {"argv": script or command("testbed"), "environment": environment}
        for environment in environments()
    ]
    job = TorchrunOnRails(TorchrunOptions(RANKS, ("script",), mesh=dict(mesh)))
    at_work = AtWork(gang, job, FOUR, mode, each=each)
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


FOUR_IN_PAIRS = """
import torch, torch.distributed as dist
dist.init_process_group("testbed")
group, rank = dist.new_group([0, 1, 2, 3]), dist.get_rank()
dist.barrier(group=group)
for size in (1, 3, 4, 100_003):
    for kind in (torch.float32, torch.float64, torch.int64, torch.uint8, torch.float16):
        summed = (torch.arange(size) % 7 + rank).to(kind)
        dist.all_reduce(summed, group=group)
        assert summed.equal((4 * (torch.arange(size) % 7) + 6).to(kind)), (size, kind)
    mean = torch.full((size,), float(rank))
    dist.all_reduce(mean, dist.ReduceOp.AVG, group=group)
    assert mean.eq(1.5).all()
    for root in range(4):
        for kind in (torch.float32, torch.bfloat16, torch.bool):
            told = torch.full((size,), rank, dtype=torch.float32).sub_(1).to(kind)
            dist.broadcast(told, root, group=group)
            assert told.equal(torch.full((size,), root - 1, dtype=torch.float32).to(kind))
    each = [torch.empty(size, dtype=torch.uint8) for _ in range(4)]
    dist.all_gather(each, torch.full((size,), rank, dtype=torch.uint8), group=group)
    assert [one[0].item() for one in each] == [0, 1, 2, 3]
    whole = torch.empty(4 * size)
    dist.all_gather_into_tensor(whole, torch.full((size,), float(rank)), group=group)
    assert whole.view(4, size).eq(torch.arange(4.0)[:, None]).all()
    kept, given = torch.empty(size), torch.arange(4.0).repeat_interleave(size) + rank
    dist.reduce_scatter_tensor(kept, given, group=group)
    assert kept.eq(4 * rank + 6).all()
    assert given.equal(torch.arange(4.0).repeat_interleave(size) + rank)
    dist.reduce_scatter(kept, list(given.chunk(4)), dist.ReduceOp.AVG, group=group)
    assert kept.eq(rank + 1.5).all()
apart = torch.zeros(6, 4)[:, ::2]
apart += rank
works = [dist.all_reduce(apart, group=group, async_op=True) for _ in range(2)]
assert works[1].get_future().wait()[0].eq(24).all()
dist.destroy_process_group()
"""


def test_a_group_of_four_meets_in_pairs_and_has_every_value_right(gang):
    at_work = on_rails(gang, script=[sys.executable, "-c", FOUR_IN_PAIRS], mesh=[("dp", 4)])
    assert at_work.codes == [0] * RANKS, output_of(at_work, "stderr")
    assert_stages_are_left(at_work)
