"""The job `all-to-all` over circuits that follow time slots, with every value verified."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..communication.control import Control
from ..communication.time_slots import SlotGroup
from .allreduce import Pattern
from .state import State


@dataclass(frozen=True)
class Options:
    """The options: `sizes` in bytes, what a rank has for each of the others.

    Each size is run `iterations` times after a warm-up. `circuits` are the options of `SlotGroup`.
    """

    sizes: Sequence[int]
    circuits: Mapping[str, Any]
    iterations: int = 5
    warmup: int = 1


class Job:
    """Runs through all sizes and ends; size and iteration follow from the step number."""

    connects_to = "everybody"

    def __init__(self, options: Mapping[str, Any], seed: int, ranks: int) -> None:
        self._options = Options(**options)
        self.state = State(0)
        self.loss: float | None = None

    def warm_up(self, raise_if_left: Callable[[], None]) -> None:
        """Do nothing, as each size warms up its own buffers over the circuits."""

    def run(self, group: SlotGroup, control: Control) -> None:
        """Run from the next step on; a new size warms up first."""
        options, blocks = self._options, None
        while True:
            step = self.state.step
            assert step is not None
            index, iteration = divmod(step, options.iterations)
            if index == len(options.sizes) or control.ends_before(step):
                group.finish(step - 1)
                return
            size = options.sizes[index]
            if blocks is None or blocks.size != size:
                blocks = Blocks(group.rank, group.ranks, size)
                for number in range(options.warmup):
                    blocks.run(group, step + number)
            facts = blocks.run(group, step, control)
            self.state.commit()
            control.emit(
                "sample",
                facts["end"],
                generation=group.generation,
                step=step,
                size=size,
                iteration=iteration,
                operation="alltoall",
                **facts,
                verified=True,
            )


class Blocks:
    """What a rank sends to each of the others, and receives from it: `size` bytes either way.

    The values name sender, receiver and step, so that one of another block is found.
    """

    def __init__(self, rank: int, ranks: int, size: int) -> None:
        self.size = size
        self._rank, self._ranks = rank, ranks
        others = [other for other in range(ranks) if other != rank]
        self._outgoing = {other: Pattern(size // 4) for other in others}
        self._incoming = {other: Pattern(size // 4) for other in others}

    def run(self, group: SlotGroup, step: int, control: Control | None = None) -> dict[str, Any]:
        """Exchange all blocks, and verify each value; return what is reported of it."""
        numbered = step * self._ranks**2
        for pattern in self._incoming.values():
            pattern.vector.fill(math.nan)  # what is not received is no right value
        for other, pattern in self._outgoing.items():
            pattern.fill(self._rank * self._ranks + other, numbered, group.raise_if_left)
        if control is not None:
            control.delay_collective(group.generation)
        begin = time.monotonic()
        uses = group.exchange(_bytes_of(self._outgoing), _bytes_of(self._incoming))
        end = time.monotonic()
        for other, pattern in self._incoming.items():
            pattern.verify([other * self._ranks + self._rank], numbered, group.raise_if_left)
        return {
            "begin": begin,
            "end": end,
            "bytes": self.size * (self._ranks - 1),
            "waits": {},
            "changes": [use.dark for use in uses],
            "slots": [[use.circuits, use.begin, use.received, use.is_full] for use in uses],
        }


def _bytes_of(patterns: Mapping[int, Pattern]) -> dict[int, memoryview]:
    return {other: pattern.vector.view(np.uint8).data for other, pattern in patterns.items()}
