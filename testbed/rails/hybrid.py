"""A model of hybrid-parallel training: pipeline and data parallel ranks of one rail.

Ranks of a tensor group are on one host, and each is on a rail of its own; rails are alike, so one
is modelled. Pipeline stage s of replica d is rank s·dp + d. An iteration sends activations forward
and their gradients back for each micro-batch, then sums gradients over the replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from testbed.rails.profile import ControlCost, Group, Waits
from testbed.rails.workload import IterationParts, Part, Workload

PipelineOrder = Literal["gpipe", "1f1b"]

RAIL = "rail0"


@dataclass(frozen=True, slots=True)
class Hybrid:
    """An iteration: its mesh, and the seconds that computing and communicating take."""

    pp: int
    dp: int
    micro_batches: int
    forward: float
    """Of one micro-batch through one pipeline stage."""
    backward: float
    transfer: float
    """Of the activations of a micro-batch, or their gradients, to a neighbour."""
    all_reduce: float
    """Of the gradients of a pipeline stage over its replicas."""
    order: PipelineOrder = "1f1b"
    update: float = 0.0
    """Of the optimiser."""


Action = tuple[Literal["forward", "backward"], int]
"""What a pipeline stage computes, and the number of the micro-batch."""


def hybrid(job: Hybrid, control: ControlCost | None = None) -> Workload:
    """Return one iteration of a job as a workload."""
    groups = {f"pp{d}": tuple(s * job.dp + d for s in range(job.pp)) for d in range(job.dp)}
    groups |= {f"dp{s}": tuple(s * job.dp + d for d in range(job.dp)) for s in range(job.pp)}
    known = {name: Group(ranks, RAIL) for name, ranks in groups.items() if len(ranks) > 1}
    ranks = tuple(
        IterationParts(tuple(_parts(job, stage, replica, groups)), job.update)
        for stage in range(job.pp)
        for replica in range(job.dp)
    )
    return Workload(known, (ranks,), (0.0,) * len(ranks), control or ControlCost())


def order_of(job: Hybrid, stage: int) -> Sequence[Action]:
    """Return what a pipeline stage computes, in order.

    GPipe: all forward, then all backward. One forward, one backward (1F1B, PipeDream): as many
    forward first as there are pipeline stages behind.
    """
    count = job.micro_batches
    first = count if job.order == "gpipe" else min(count, job.pp - 1 - stage)
    order: list[Action] = [("forward", n) for n in range(first)]
    for n in range(count - first):
        order += [("forward", first + n), ("backward", n)]
    return [*order, *(("backward", n) for n in range(count - first, count))]


def _parts(
    job: Hybrid, stage: int, replica: int, groups: dict[str, tuple[int, ...]]
) -> Iterator[Part]:
    """Yield the communication of one rank."""
    name, gap = f"pp{replica}", 0.0

    def exchange(what: int, micro: int, edge: int, waits: Waits, after: float) -> Part:
        number = (what * job.micro_batches + micro) * job.pp + edge
        return Part(name, number, groups[name], after, job.transfer, waits=waits)

    for action, micro in order_of(job, stage):
        forth = action == "forward"
        source = stage - 1 if forth else stage + 1
        if 0 <= source < job.pp:
            yield exchange(not forth, micro, min(stage, source), "receive", gap)
            gap = 0.0
        gap += job.forward if forth else job.backward
        target = stage + 1 if forth else stage - 1
        if 0 <= target < job.pp:
            yield exchange(not forth, micro, min(stage, target), "send", gap)
            gap = 0.0
    if job.dp > 1:
        yield Part(f"dp{stage}", 0, groups[f"dp{stage}"], gap, job.all_reduce)


def ring_all_reduce(ranks: int, size: float, rate: float) -> float:
    """Return the seconds of a ring AllReduce of `size` bytes at `rate` bit/s, without latency."""
    return 2 * (ranks - 1) / ranks * size * 8 / rate
