"""The job `pi` on a host: draw points, sum the hits over all ranks, verify every sum.

What a rank draws follows from the seed, the step and its number, so each rank can draw what the
others drew, and knows every sum beforehand. `onhost` is the testbed's own code on the hosts.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onhost.communication.control import Control
from onhost.communication.ring import Ring
from onhost.errors import Corrupt
from onhost.jobs.pace import Pace
from onhost.jobs.state import Numbers, State


class Job:
    """Counts hits per cell until the agent's last step; the state is what was counted."""

    connects_to = "neighbours"

    def __init__(self, options: Mapping[str, Any], seed: int, ranks: int) -> None:
        self._cells, self._points = options["cells"], options["points"]
        self._pace: float = options["pace"]
        self._seed = seed
        self.state = State(self._cells)
        self.loss: float | None = None

    def warm_up(self, raise_if_left: Callable[[], None]) -> None:
        """Draw once, as the first step does."""
        self._hits(0, 0)

    def run(self, ring: Ring, control: Control) -> None:
        """Count from the next step on, until the agent's last step is committed."""
        pace = Pace(self._pace, control, ring.generation)
        while not control.ends_before(self.state.step or 0):
            self._step(self.state.step or 0, ring, control, pace)

    def _step(self, step: int, ring: Ring, control: Control, pace: Pace) -> None:
        begin = time.monotonic()
        hits = self._hits(step, ring.rank)
        paced = pace.wait()
        delayed = control.delay_collective(ring.generation)
        entered = time.monotonic()
        record = ring.all_reduce(hits)
        left = time.monotonic()
        pace.restart()
        expected = sum(self._hits(step, rank) for rank in range(ring.ranks))
        if wrong := np.flatnonzero(hits != expected).size:
            raise Corrupt(f"{wrong} sums of step {step} are wrong")
        counted = self.state.draft
        np.add(self.state.numbers, hits, out=counted)
        drawn = self._cells * self._points * ring.ranks * (step + 1)
        self.loss = abs(4 * float(counted.sum(dtype=np.float64)) / drawn - np.pi)
        digest = f"{zlib.crc32(counted.data):08x}"
        self.state.commit()
        end = time.monotonic()
        control.emit(
            "step",
            end,
            generation=ring.generation,
            step=step,
            begin=begin,
            end=end,
            collective=[entered, left],
            algorithm="ring",
            choice=0,
            loss=self.loss,
            digest=digest,
            verified=True,
            bytes=record.sent,
            delayed=delayed,
            waits=record.waits,
            wire=None,
            **paced,
        )

    def _hits(self, step: int, rank: int) -> Numbers:
        """Return how many of a rank's points of a step hit the circle, for each cell."""
        bits = np.random.Philox(key=[self._seed, rank], counter=[0, 0, 0, step])
        x, y = np.random.Generator(bits).random((2, self._cells, self._points), np.float32)
        return np.count_nonzero(x * x + y * y < 1, axis=1).astype(np.float32)
