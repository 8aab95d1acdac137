"""Event logs as large as wanted, of a job that trains, and recovers once in each trial."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbed.events import Event
from testbed.events.origin import NOWHERE, Origin

RANKS = 4
SPARES = 2
RATE = 10.0
"""Steps a second."""
CLOCKS_EACH = 0.5
"""Seconds between two measurements of each host's clock."""
PAUSE = 0.5
"""Seconds that the recovery of each trial takes."""
HEARD = 0.002
"""Seconds after which the orchestrator hears of what happened on a host."""
DRIFT = 3e-6
ARM = "splice-warm"
JOB = Origin("main")


class LargeLog:
    """So many trials of so many steps each, written one event after the other."""

    def __init__(self, trials: int, steps: int, seed: int = 7) -> None:
        self._trials, self._steps = trials, steps
        self._random = random.Random(seed)
        self._seq = 0
        self._t = 0.0
        self._trial: int | None = None
        self._measured = 0.0
        self._generation = 1
        self._hosts = [f"h{rank}" for rank in range(RANKS + SPARES)]

    def write(self, path: Path) -> int:
        """Write the log into a file; return the number of its events."""
        with path.open("w", encoding="utf-8") as file:
            file.writelines(event.to_json() + "\n" for event in self.events())
        return self._seq

    def events(self) -> Iterator[Event]:
        """Yield every event in the order of the log."""
        facts = {"label": "model", "seed": 7, "lab": "large", "started": "2026-01-01T00:00:00Z"}
        yield self._event("run.begin", "large", **facts)
        for host in self._hosts:
            yield self._event("host.ready", host)
        yield from self._clocks()
        for number in range(self._trials):
            self._trial = number
            yield from self._of_trial()
            self._trial = None
        end = {"exit_code": 0, "error": "", "cleanup": "verified", "left": [], "signals": []}
        yield self._event("run.end", "", **end)

    def _of_trial(self) -> Iterator[Event]:
        yield self._event("settings", ARM, settle=0.025, rate=5e8)
        yield self._event("trial.begin", ARM, generation=self._generation)
        for number in range(self._steps):
            if number == self._steps // 2:
                yield from self._recovery(number)
            yield from self._step(number)
        yield self._event("fault.undo", "h1", fault="power-cut", sent=self._t, done=self._t)
        said = {"valid": True, "recovered": True, "response": "recovered", "reason": ""}
        yield self._event("trial.end", ARM, **said)
        yield self._event("load", "this machine", others=0.01)

    def _step(self, number: int) -> Iterator[Event]:
        begin = self._t
        self._t += 1 / RATE
        for rank in range(RANKS):
            own = begin + self._random.uniform(0.0, 0.004)
            entered, left = own + 0.06 + self._random.uniform(0.0, 0.003), begin + 0.09
            end = left + self._random.uniform(0.001, 0.003)
            stamps = [self._shown(rank, t) for t in (own, end, entered, left)]
            yield self._on(
                *(rank, end, "step"),
                generation=self._generation,
                step=number,
                begin=stamps[0],
                end=stamps[1],
                collective=stamps[2:],
                algorithm="ring",
                choice=0,
                loss=6.0 - number / 10_000,
                digest=f"{number:08x}",
                verified=True,
                bytes=690_504,
                delayed=0.0,
                waits={str((rank + 1) % RANKS): 0.0001},
                wire=9_199_739 + number * 700_000,
            )
        if self._t - self._measured >= CLOCKS_EACH:
            yield from self._clocks()

    def _recovery(self, number: int) -> Iterator[Event]:
        """Yield a recovery from a fault that strikes now, before step `number`."""
        zero, self._generation = self._t, self._generation + 1
        struck = {"fault": "power-cut", "rank": 1, "breaks": True, "held": False}
        yield self._event("fault.inject", "h1", **struck, sent=zero, done=zero + 0.001)
        yield self._on(0, zero + 0.01, "symptom", source="carrier", port="p1", up=False)
        yield self._on(0, zero + 0.01, "fault.receipt", "h0.p1 carrier")
        yield self._event("recovery.decided", "h1", because="a test", replacement="h4")
        yield self._event("recovery.fenced", "h1")
        done = {"commanded": zero + 0.04, "read_back": zero + 0.05}
        yield self._event("fabric.change", "recovery", **done)
        for rank in (0, 2, 3):
            yield self._on(rank, zero + 0.06, "rank.left", committed=number)
        for rank in (0, 2):
            yield self._on(rank, zero + 0.08, "link.good", f"h{rank}.p0–h4.p0")
        for kind in ("generation", "state.restored"):
            for rank in range(RANKS):
                yield self._on(rank, zero + 0.3, kind, generation=self._generation, step=number)
        self._t = zero + PAUSE

    def _clocks(self) -> Iterator[Event]:
        self._measured = self._t
        for rank, host in enumerate(self._hosts):
            bound = self._random.uniform(1e-4, 3e-4)
            ahead = self._shown(rank, self._t) - self._t + self._random.uniform(-bound, bound) / 2
            yield self._event("clock.offset", host, ahead=ahead, bound=bound)

    def _shown(self, rank: int, t: float) -> float:
        """Return what a host's clock shows at an instant of the log."""
        return 1000.0 * (rank + 1) + t * (1 + rank * DRIFT)

    def _on(self, rank: int, t: float, kind: str, subject: str = "", **data: Any) -> Event:
        """Return an event of a rank's host, heard of a moment later."""
        where = {"host": f"h{rank}", "rank": rank, "mono": self._shown(rank, t)}
        subject = subject or f"rank {rank}"
        return self._event(kind, subject, t + HEARD, origin=JOB, **where, **data)

    def _event(
        self,
        kind: str,
        subject: str = "",
        at: float | None = None,
        origin: Origin = NOWHERE,
        **data: Any,
    ) -> Event:
        self._seq += 1
        t = self._t if at is None else at
        return Event(self._seq - 1, t, kind, subject, self._trial, data, origin)
