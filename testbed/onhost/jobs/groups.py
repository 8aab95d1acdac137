"""The job `groups`: collectives in the groups of a mesh, every value verified.

All groups along one dimension run at once, and dimensions take turns. Values depend on the rank in
the whole mesh, and no two groups along a dimension have the same sum, so that a value of another
group shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ..communication.communicator import Vector, chunk_bounds
from ..communication.control import Control
from ..communication.matchings import Matching, Matchings, partner_in
from ..communication.mesh import MeshGroups
from ..communication.rank_schedule import RankSchedule, ScheduleRecord
from .allreduce import Pattern
from .pace import Pace
from .state import State

_OPERATIONS = {
    "all-reduce": "all_reduce",
    "reduce-scatter": "reduce_scatter",
    "all-gather": "all_gather",
    "chain": "sendrecv",
    "all-to-all": "alltoall",
}
"""The names of collectives in nccl-tests."""


def results(collective: str, rank: int, ranks: int) -> tuple[int, dict[int, Sequence[int]]]:
    """Return how many chunks a buffer has, and of which ranks each is the sum at the end.

    Chunks that may hold anything then are left out.
    """
    every = range(ranks)
    if collective == "all-reduce":
        return 1, {0: every}
    if collective == "chain":
        return 1, {0: [0]}
    if collective == "all-gather":
        return ranks, {chunk: [chunk] for chunk in every}
    if collective == "reduce-scatter":
        return ranks, {rank: every}
    mine = {source * ranks + rank: [source] for source in every}
    return ranks * ranks, {**mine, **{rank * ranks + other: [rank] for other in every}}


@dataclass(frozen=True)
class Options:
    """`sizes` in bytes; by dimension all `groups` along it, what they run, and its `schedules`.

    Each size is run `iterations` times along all dimensions in turn, after `warmup` times more.
    `pace` is the seconds that each rank computes between two collectives. `matchings` are those in
    which ranks exchange along a dimension on rails: each is a round of its schedule.
    """

    sizes: Sequence[int]
    groups: Mapping[str, Sequence[Sequence[int]]]
    collectives: Mapping[str, str]
    schedules: Mapping[str, Any]
    iterations: int = 20
    warmup: int = 5
    pace: Optional[float] = None
    matchings: Optional[Matchings] = None


@dataclass(frozen=True)
class Turn:
    """The dimension, size and iteration of one step."""

    dimension: str
    size: int
    iteration: int


@dataclass(frozen=True)
class Part:
    """A rank's part of a collective: all of it, or of one matching, with whom it meets there."""

    schedule: RankSchedule
    matching: Optional[Matching] = None
    partner: Optional[int] = None


Parts = tuple[Part, ...]
Ran = tuple[ScheduleRecord, dict[str, Any]]
"""What a rank recorded, and its times as a sample tells them."""


class Job:
    """Runs through all sizes and ends; size and dimension follow from the step number."""

    connects_to = "groups"

    def __init__(self, options: Mapping[str, Any], seed: int, ranks: int) -> None:
        self._options = Options(**options)
        self._size = 0
        self._patterns: dict[str, Pattern] = {}
        self.state = State(0)
        self.loss: float | None = None

    def warm_up(self, raise_if_left: Callable[[], None]) -> None:
        """Do nothing, as each size warms up its own buffer over the connections."""

    def run(self, mesh: MeshGroups, control: Control) -> None:
        """Run from the next step on; a new size warms up first."""
        schedules = {
            name: self._parts(name, group.rank) for name, group in mesh.by_dimension.items()
        }
        pace = Pace(self._options.pace, control, mesh.generation)
        while True:
            step = self.state.step
            assert step is not None
            turn = self._turn(step)
            if turn is None or control.ends_before(step):
                return
            if self._size != turn.size:
                self._warm_up(turn, schedules, mesh, step)
                pace.restart()
            upcoming = self._upcoming(step + 1)
            facts = self._run_once(turn.dimension, schedules, mesh, step, upcoming, control, pace)
            self.state.commit()
            control.emit(
                "sample",
                facts["end"],
                generation=mesh.generation,
                step=step,
                size=turn.size,
                iteration=turn.iteration,
                dimension=turn.dimension,
                operation=_OPERATIONS[self._options.collectives[turn.dimension]],
                members=list(mesh.members[turn.dimension]),
                **facts,
                **mesh.losses(),
                verified=True,
            )

    def _parts(self, dimension: str, rank: int) -> Parts:
        """Return a rank's schedule along a dimension: as a whole, or each matching by itself."""
        plan = self._options.schedules[dimension]
        matchings = (self._options.matchings or {}).get(dimension)
        if matchings is None:
            return (Part(RankSchedule.of(plan, rank)),)
        rounds = ({**plan, "rounds": [one]} for one in plan["rounds"])
        return tuple(
            Part(RankSchedule.of(one, rank), matching, partner_in(matching, rank))
            for matching, one in zip(matchings, rounds)  # noqa: B905 - Python 3.9
        )

    def _turn(self, step: int) -> Turn | None:
        """Return what a step runs; None after the last one."""
        options = self._options
        dimensions = list(options.groups)
        number, place = divmod(step, len(dimensions))
        index, iteration = divmod(number, options.iterations)
        if index == len(options.sizes):
            return None
        return Turn(dimensions[place], options.sizes[index], iteration)

    def _upcoming(self, step: int) -> list[str]:
        """Return the dimensions from a step on, up to where all have had a turn."""
        count = len(self._options.groups)
        turns = (self._turn(number) for number in range(step, step + count))
        return [turn.dimension for turn in turns if turn is not None]

    def _warm_up(
        self, turn: Turn, schedules: Mapping[str, Parts], mesh: MeshGroups, step: int
    ) -> None:
        size = self._size = turn.size
        for dimension, schedule in schedules.items():
            ranks = len(mesh.members[dimension])
            # What a rank has for each of the others is the size that nccl-tests counts.
            parts = ranks if schedule[0].schedule.chunks == ranks * ranks else 1
            self._patterns[dimension] = Pattern(size // 4 * parts)
        runs = [name for _ in range(self._options.warmup) for name in schedules]
        for number, dimension in enumerate(runs):
            upcoming = runs[number + 1 :] + self._upcoming(step)
            self._run_once(dimension, schedules, mesh, step + number // len(schedules), upcoming)

    def _run_once(
        self,
        dimension: str,
        schedules: Mapping[str, Parts],
        mesh: MeshGroups,
        step: int,
        upcoming: Sequence[str],
        control: Control | None = None,
        pace: Pace | None = None,
    ) -> dict[str, Any]:
        """Run the collective of this rank's group, as all others along the dimension do.

        `upcoming` are the dimensions that come next. On rails it waits for its circuits from when
        it has `reached` the collective until they are `lit`.
        """
        pattern, members = self._patterns[dimension], mesh.members[dimension]
        pattern.fill(mesh.rank, step, mesh.raise_if_left)
        paced = {} if pace is None else pace.wait()

        def delay() -> None:
            if control is not None:
                control.delay_collective(mesh.generation)

        parts, group = schedules[dimension], mesh.by_dimension[dimension]
        run = _run_whole if parts[0].matching is None else _run_in_matchings
        record, times = run(dimension, parts, mesh, pattern.vector, upcoming, delay)
        if pace is not None:
            pace.restart()
        chunks, held = results(self._options.collectives[dimension], group.rank, group.ranks)
        bounds = chunk_bounds(pattern.vector.size, chunks)
        for chunk, of in held.items():
            summed = [members[number] for number in of]
            pattern.verify(summed, step, mesh.raise_if_left, *bounds[chunk])
        waits = {members[number]: seconds for number, seconds in record.waits.items()}
        return {**times, "bytes": record.sent, "waits": waits, **paced}


def _run_whole(
    dimension: str,
    parts: Parts,
    mesh: MeshGroups,
    vector: Vector,
    upcoming: Sequence[str],
    delay: Callable[[], None],
) -> Ran:
    """Run a collective that all ranks of the group have their circuits for at once."""
    reached = time.monotonic()
    lit = mesh.begin(dimension)
    delay()
    begin = time.monotonic()
    record = mesh.by_dimension[dimension].run(parts[0].schedule, vector)
    end = time.monotonic()
    mesh.end(dimension, upcoming)
    on_rail = {} if lit is None else {"reached": reached, "lit": lit}
    return record, {**on_rail, "begin": begin, "end": end}


def _run_in_matchings(
    dimension: str,
    parts: Parts,
    mesh: MeshGroups,
    vector: Vector,
    upcoming: Sequence[str],
    delay: Callable[[], None],
) -> Ran:
    """Run a collective in which circuits join two ranks of the group at a time."""
    group, record, rows = mesh.by_dimension[dimension], ScheduleRecord(), list[Any]()
    pairs = [*mesh.joined(dimension), None]
    for part in parts:
        if part.partner is None:  # it pauses, and counts the round as the others do
            record.merge(group.run(part.schedule, vector))
            continue
        pair, after = pairs[len(rows)], pairs[len(rows) + 1]
        came = time.monotonic()
        lit = mesh.begin(dimension, joined=pair)
        if not rows:
            delay()
        begin = time.monotonic()
        mine = group.run(part.schedule, vector)
        rows.append([mesh.members[dimension][part.partner], came, lit, begin, time.monotonic()])
        rows[-1].append(mine.sent)
        mesh.end(dimension, upcoming if after is None else [dimension], after)
        record.merge(mine)
    (_, reached, lit, begin, *_), end = rows[0], rows[-1][4]
    return record, {"reached": reached, "lit": lit, "begin": begin, "end": end, "matchings": rows}
