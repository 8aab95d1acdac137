"""The parts of each rank in repeated iterations, as tasks for a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
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


def programs(workload: Workload, repeats: int) -> list[Program]:
    """Return what each rank does when the iterations of a workload are repeated."""
    spans = _spans(workload)
    return [_program(workload, rank, repeats, spans) for rank in range(workload.ranks)]


def _program(workload: Workload, rank: int, repeats: int, spans: Mapping[str, int]) -> Program:
    counts: Counter[tuple[str, tuple[int, ...]]] = Counter()
    tasks: list[Task] = []
    gap, each = workload.offsets[rank], len(workload.iterations)
    for iteration in range(repeats * each):
        repeat, number = divmod(iteration, each)
        own = workload.iterations[number][rank]
        begins, lasts = {}, set()
        for one in stages_of(own.parts, workload.groups):
            key = one.stage.group, one.stage.ranks
            begins[one.first] = replace(one.stage, number=counts[key])
            counts[key] += 1
            lasts.add(one.last)
        for index, part in enumerate(own.parts):
            instance = part.group, part.number + repeat * spans[part.group]
            begun = begins.get(index)
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


def _spans(workload: Workload) -> dict[str, int]:
    """Return by group by how much numbers of operations grow from one repetition to the next."""
    numbers: dict[str, set[int]] = {}
    for ranks in workload.iterations:
        for own in ranks:
            for part in own.parts:
                numbers.setdefault(part.group, set()).add(part.number)
    return {group: max(found) + 1 - min(found) for group, found in numbers.items()}
