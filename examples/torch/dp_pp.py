"""Train a small network split over replicas and two pipeline stages, with plain PyTorch.

Started by torchrun. Nothing in it is of any testbed: which library moves its data is what
`--backend` says. The last stage of the first replica prints the loss of each step, in full.

    torchrun --nproc-per-node 4 examples/torch/dp_pp.py --backend gloo
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STAGES, WIDTH, BATCH = 2, 32, 8


def groups(rank: int, world: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup, int, int]:
    """Return this rank's group of replicas and its pipeline; the stage varies fastest."""
    replicas = world // STAGES
    of_stage = [dist.new_group([STAGES * r + s for r in range(replicas)]) for s in range(STAGES)]
    of_replica = [dist.new_group([STAGES * r + s for s in range(STAGES)]) for r in range(replicas)]
    replica, stage = divmod(rank, STAGES)
    return of_stage[stage], of_replica[replica], replica, stage


def layers(stage: int) -> nn.Module:
    """Return the layers of a stage."""
    torch.manual_seed(stage)
    ends = [nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)]
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), ends[stage])


def exchange(
    other: int,
    pipeline: dist.ProcessGroup,
    sent: torch.Tensor | None,
    received: torch.Tensor | None,
) -> None:
    """Send a tensor to the other stage and receive one, as a batch; either may be None."""
    operations = []
    if sent is not None:
        operations.append(dist.P2POp(dist.isend, sent, other, pipeline))
    if received is not None:
        operations.append(dist.P2POp(dist.irecv, received, other, pipeline))
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def first_stage(
    model: nn.Module, inputs: torch.Tensor, other: int, pipeline: dist.ProcessGroup
) -> None:
    """Run all micro-batches forward and backward: while one goes on, the last one comes back."""
    outputs, gradients = [], []
    for number, one in enumerate(inputs):
        outputs.append(model(one))
        gradients.append(torch.empty(BATCH, WIDTH))
        back = gradients[number - 1] if number else None
        exchange(other, pipeline, outputs[-1].detach(), back)
    exchange(other, pipeline, None, gradients[-1])
    for output, gradient in zip(outputs[:-1], gradients[:-1], strict=True):
        with model.no_sync():
            output.backward(gradient)
    outputs[-1].backward(gradients[-1])  # in which the replicas sum their gradients


def last_stage(
    model: nn.Module, targets: torch.Tensor, other: int, pipeline: dist.ProcessGroup
) -> torch.Tensor:
    """Run all micro-batches as they come; return the sum of their losses."""
    total, gradient = torch.zeros(()), None
    for number, target in enumerate(targets):
        came = torch.empty(BATCH, WIDTH)
        exchange(other, pipeline, gradient, came)
        came.requires_grad_()
        is_last = number == len(targets) - 1
        with model.no_sync() if not is_last else torch.enable_grad():
            loss = nn.functional.mse_loss(model(came), target) / len(targets)
            loss.backward()  # the last time while the replicas sum their gradients
        total, gradient = total + loss.detach(), came.grad
    exchange(other, pipeline, gradient, None)
    return total


def main() -> None:
    """Train, and print the mean loss over the replicas after each step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--micro-batches", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(given.backend)
    rank = dist.get_rank()
    replicas, pipeline, replica, stage = groups(rank, dist.get_world_size())
    model = DistributedDataParallel(layers(stage), process_group=replicas)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    data = torch.Generator().manual_seed(replica)
    other = rank + 1 if stage == 0 else rank - 1
    for step in range(given.steps):
        inputs = torch.randn(given.micro_batches, BATCH, WIDTH, generator=data)
        targets = inputs.sum(-1, keepdim=True).sin()
        optimiser.zero_grad()
        if stage == 0:
            first_stage(model, inputs, other, pipeline)
        else:
            loss = last_stage(model, targets, other, pipeline)
            dist.all_reduce(loss, group=replicas)
            if replica == 0:
                print(f"step {step} loss {loss.item() / dist.get_world_size(replicas)!r}")
        optimiser.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
