"""The parts of each rank in repeated iterations, as tasks for a replay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from testbed.rails.profile import stages_of
from testbed.rails.stage import Stage
from testbed.rails.workload import Instance, Part, Workload


@dataclass(frozen=True, slots=True)
class Task:
    """A part of a rank in a repetition, with the stage that it begins or ends."""

    iteration: int
    """Counted over all repetitions."""
    gap: float
    """Seconds of compute before it, since the task before."""
    part: Part
    instance: Instance
    begins: Stage | None
    ends: bool
    following: Stage | None = None
    """Where it ends a stage, the next one of this rank."""


@dataclass(frozen=True, slots=True)
class Program:
    """The tasks of a rank; `tails` are the seconds after the last task of each iteration."""

    tasks: tuple[Task, ...]
    tails: tuple[float, ...]


def program(workload: Workload, rank: int, repeats: int) -> Program:
    """Return what a rank does when the iterations of a workload are repeated."""
    spans = _spans(workload, rank)
    tasks: list[Task] = []
    gap, each = workload.offsets[rank], len(workload.iterations)
    for iteration in range(repeats * each):
        repeat, number = divmod(iteration, each)
        own = workload.iterations[number][rank]
        stages = [*stages_of(own.parts, workload.groups)]
        begins = {one.first: one.stage for one in stages}
        lasts = {one.last for one in stages}
        for index, part in enumerate(own.parts):
            shift = repeat * spans[part.group, part.ranks]
            stage = begins.get(index)
            begun = stage and replace(stage, number=stage.number + shift)
            instance = part.group, part.ranks, part.number + shift
            tasks.append(Task(iteration, gap + part.gap, part, instance, begun, index in lasts))
            gap = 0.0
        gap += own.tail
    tails = tuple(ranks[rank].tail for ranks in workload.iterations) * repeats
    return Program(tuple(_linked(tasks)), tails)


def _linked(tasks: list[Task]) -> Iterator[Task]:
    """Yield the tasks with the stage that follows each that ends one."""
    following: Stage | None = None
    found = []
    for task in reversed(tasks):
        found.append(replace(task, following=following) if task.ends else task)
        following = task.begins or following
    yield from reversed(found)


def _spans(workload: Workload, rank: int) -> dict[tuple[str, tuple[int, ...]], int]:
    """Return by group and ranks by how much numbers grow from one repetition to the next."""
    numbers: dict[tuple[str, tuple[int, ...]], set[int]] = {}
    for ranks in workload.iterations:
        for part in ranks[rank].parts:
            numbers.setdefault((part.group, part.ranks), set()).add(part.number)
    return {key: max(found) + 1 - min(found) for key, found in numbers.items()}
