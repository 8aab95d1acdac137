"""The job `collective`: schedules run in turn over message sizes, every value verified."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .allreduce import Pattern
from .control import Control
from .parts import Program
from .schedule import Group
from .state import State


@dataclass(frozen=True)
class Options:
    """`sizes` in bytes; `schedules` as plain data, by the name of the algorithm.

    Each size is run `iterations` times by all algorithms in turn, and before that `warmup` times.
    """

    sizes: Sequence[int]
    schedules: Mapping[str, Mapping[str, Any]]
    iterations: int = 5
    warmup: int = 1


@dataclass(frozen=True)
class Turn:
    """What one step runs."""

    algorithm: str
    size: int
    iteration: int


class Job:
    """Run through all sizes and end; what is run follows from the number of the step."""

    meets = "everybody"

    def __init__(self, options: Mapping[str, Any], seed: int, ranks: int) -> None:
        self._options = Options(**options)
        self._pattern = Pattern(0)
        self.state = State(0)
        self.loss: float | None = None

    def warm_up(self, checkpoint: Callable[[], None]) -> None:
        """Do nothing: every size warms up its own buffer, over the connections."""

    def run(self, group: Group, control: Control) -> None:
        """Run from the next step on; a new size warms up first."""
        schedules = self._options.schedules
        programs = {name: Program.of(data, group.rank) for name, data in schedules.items()}
        while True:
            step = self.state.step
            assert step is not None
            turn = self._turn(step)
            if turn is None or control.ends_before(step):
                return
            if self._pattern.vector.nbytes != turn.size:
                self._pattern = Pattern(turn.size // 4)
                for number in range(self._options.warmup):
                    for program in programs.values():
                        self._exchange(program, group, step + number, None)
            told = self._exchange(programs[turn.algorithm], group, step, control)
            self.state.commit()
            control.emit(
                "sample",
                told["end"],
                generation=group.generation,
                step=step,
                size=turn.size,
                iteration=turn.iteration,
                algorithm=turn.algorithm,
                **told,
                verified=True,
            )

    def _turn(self, step: int) -> Turn | None:
        """Return what a step runs; None after the last one."""
        options = self._options
        algorithms = list(options.schedules)
        number, place = divmod(step, len(algorithms))
        index, iteration = divmod(number, options.iterations)
        if index == len(options.sizes):
            return None
        return Turn(algorithms[place], options.sizes[index], iteration)

    def _exchange(
        self, program: Program, group: Group, step: int, control: Control | None
    ) -> dict[str, Any]:
        """Run one collective; `begin` is when this rank arrived at it, late where it must be."""
        pattern = self._pattern
        pattern.fill(group.rank, step, group.checkpoint)
        group.barrier()
        delayed = 0.0 if control is None else control.hold_back(group.generation)
        begin = time.monotonic()
        record = group.run(program, pattern.vector)
        end = time.monotonic()
        pattern.verify(group.ranks, step, group.checkpoint)
        return {
            "begin": begin,
            "end": end,
            "delayed": delayed,
            "bytes": record.sent,
            "waits": record.waits,
            "rounds": sorted([number, *times] for number, times in record.rounds.items()),
            "wire": group.links.bytes_on_wire(),
        }
