"""The job `collective`: AllReduces by several algorithms in turn, with every value verified.

Schedules run on the connections of the group, or through a library; a library's own AllReduce may
be among the algorithms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Optional

from ..communication.circuits import CircuitGroup, stages_of
from ..communication.connections import BYTES, FRAMES
from ..communication.control import Control
from ..communication.group import Group
from ..communication.rank_schedule import RankSchedule, ScheduleRecord
from .allreduce import Pattern, load
from .pace import Pace
from .state import Numbers, State

if TYPE_CHECKING:
    from ..communication.distributed import Distributed


@dataclass(frozen=True)
class Options:
    """The options: `sizes` in bytes; `schedules` as plain data, by the name of the algorithm.

    In each iteration all algorithms run each size in turn; there are `iterations` of them, and
    before a size is timed for the first time it is run `warmup` times. The sizes alternate, so that
    a disturbance of the host for a second slows one iteration of many sizes, but no median. An
    algorithm without a schedule is the AllReduce of the `library`. On a circuit switch a schedule
    is in stages, and `circuits` are the options of `CircuitGroup`. `choices` are the algorithms for
    which one of several schedules is chosen for each size.
    `pace` is the seconds that each rank computes between two collectives.
    """

    sizes: Sequence[int]
    schedules: Mapping[str, Any]
    library: Optional[str] = None
    through_library: bool = False
    """The schedules are run by the library, too."""
    iterations: int = 5
    warmup: int = 1
    circuits: Mapping[str, Any] | None = None
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pace: Optional[float] = None

    @property
    def turns(self) -> list[str]:
        """Return the algorithms that take turns."""
        chosen = {name for names in self.choices.values() for name in names}
        return [*(name for name in self.schedules if name not in chosen), *self.choices]


@dataclass(frozen=True)
class Turn:
    """The size, algorithm and iteration of one step."""

    algorithm: str
    size: int
    iteration: int


@dataclass(frozen=True)
class Run:
    """One algorithm, ready to run on a vector.

    A library runs on the vector that it was given before.
    """

    run: Callable[[Numbers], ScheduleRecord]
    library: Distributed | None = None


class Job:
    """Runs through all sizes and ends; size and algorithm follow from the step number."""

    connects_to = "everybody"

    def __init__(self, options: Mapping[str, Any], seed: int, ranks: int) -> None:
        self._options = Options(**options)
        self._patterns: dict[int, Pattern] = {}
        """By the bytes of a size that was warmed up."""
        if self._options.library is not None:
            load(self._options.library)
        self.state = State(0)
        self.loss: float | None = None

    def warm_up(self, raise_if_left: Callable[[], None]) -> None:
        """Do nothing, as each size warms up its own buffer over the connections."""

    def run(self, group: Group | CircuitGroup, control: Control) -> None:
        """Run from the next step on; a new size warms up first."""
        library = self._connected(group, control)
        try:
            self._take_turns(self._runs(group, library), group, control)
        finally:
            if library is not None:
                library.close()

    def _connected(self, group: Group | CircuitGroup, control: Control) -> Distributed | None:
        if self._options.library is None or isinstance(group, CircuitGroup):
            return None
        from ..communication.distributed import Distributed  # brings torch, seconds of it

        return Distributed(group, self._options.library, control.leave)

    def _runs(self, group: Group | CircuitGroup, library: Distributed | None) -> dict[str, Run]:
        return {
            name: self._run_of(data, group, library)
            for name, data in self._options.schedules.items()
        }

    def _run_of(self, data: Any, group: Group | CircuitGroup, library: Distributed | None) -> Run:
        if isinstance(group, CircuitGroup):
            return Run(partial(group.run, stages_of(data, group.rank)))
        if data is None and library is not None:
            return Run(lambda _: library.all_reduce(), library)
        schedule = RankSchedule.of(data, group.rank)
        if library is not None and self._options.through_library:
            return Run(lambda _: library.run(schedule), library)
        return Run(partial(group.run, schedule))

    def _take_turns(
        self, runs: Mapping[str, Run], group: Group | CircuitGroup, control: Control
    ) -> None:
        chosen = self._chosen(control, group.generation)
        pace = Pace(self._options.pace, control, group.generation)
        while True:
            step = self.state.step
            assert step is not None
            turn = self._turn(step)
            if turn is None or control.ends_before(step):
                return
            if turn.size not in self._patterns:
                self._patterns[turn.size] = Pattern(turn.size // 4)
                for number in range(self._options.warmup):
                    for name in self._options.turns:
                        run = runs[chosen(Turn(name, turn.size, 0))]
                        self._run_once(run, turn.size, group, step + number)
                pace.restart()
            timed = self._timed_changes(turn, group, pace)
            facts = self._run_once(runs[chosen(turn)], turn.size, group, step, control, pace)
            self.state.commit()
            control.emit(
                "sample",
                facts["end"],
                generation=group.generation,
                step=step,
                size=turn.size,
                iteration=turn.iteration,
                algorithm=turn.algorithm,
                **facts,
                **timed,
                verified=True,
            )

    def _timed_changes(self, turn: Turn, group: Group | CircuitGroup, pace: Pace) -> dict[str, Any]:
        """Time a tour of changes at the start of each iteration; nothing without circuits.

        What a change takes varies with what else the machines do. The model has it from the same
        minute as what it is compared with. The computation begins after the tour.
        """
        first = (self._options.turns[0], self._options.sizes[0])
        if not isinstance(group, CircuitGroup) or (turn.algorithm, turn.size) != first:
            return {}
        changes = group.time_changes()
        pace.restart()
        return {"changes": changes}

    def _turn(self, step: int) -> Turn | None:
        """Return what a step runs; None after the last one."""
        options = self._options
        algorithms = options.turns
        number, place = divmod(step, len(algorithms))
        iteration, index = divmod(number, len(options.sizes))
        if iteration == options.iterations:
            return None
        return Turn(algorithms[place], options.sizes[index], iteration)

    def _chosen(self, control: Control, generation: int) -> Callable[[Turn], str]:
        """Return what names the schedule of a turn, once all choices are made."""
        if not self._options.choices:
            return lambda turn: turn.algorithm
        control.wait_until(lambda: control.choice is not None, generation)
        assert control.choice is not None
        schedules = control.choice["schedules"]
        names = self._options.choices
        return lambda turn: (
            schedules[turn.algorithm][str(turn.size)] if turn.algorithm in names else turn.algorithm
        )

    def _run_once(
        self,
        run: Run,
        size: int,
        group: Group | CircuitGroup,
        step: int,
        control: Control | None = None,
        pace: Pace | None = None,
    ) -> dict[str, Any]:
        """Run one collective; `begin` is when this rank arrived at it, late where it must be."""
        pattern = self._patterns[size]
        pattern.fill(group.rank, step, group.raise_if_left)
        if run.library is not None:
            run.library.take(pattern.vector)
        paced = {} if pace is None else pace.wait()
        before = group.connections.sent_on_wire(BYTES, FRAMES)
        group.barrier()
        delayed = 0.0 if control is None else control.delay_collective(group.generation)
        begin = time.monotonic()
        record = run.run(pattern.vector)
        end = time.monotonic()
        if pace is not None:
            pace.restart()
        if run.library is not None:
            run.library.give(pattern.vector)
        group.barrier()  # by then all that was sent for it has left
        after = group.connections.sent_on_wire(BYTES, FRAMES)
        counted = [now - then for now, then in zip(after, before)]  # noqa: B905 - Python 3.9
        pattern.verify(range(group.ranks), step, group.raise_if_left)
        return {
            "begin": begin,
            "end": end,
            "delayed": delayed,
            "bytes": record.sent or None,  # a library does not say
            "waits": record.waits,
            "rounds": sorted([number, *times] for number, times in record.rounds.items()),
            "counted": counted,
            **paced,
        }
