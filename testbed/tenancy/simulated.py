"""A client in the simulation: its availability, its state, and its attributes."""

from __future__ import annotations

from enum import Enum
from typing import Any

from testbed.tenancy import clients
from testbed.tenancy.clients import Client
from testbed.tenancy.traces import ClientTrace
from testbed.tenancy.waiting import Place


class State(Enum):
    """What a simulated client is doing."""

    AWAY = 0
    WAITING = 1
    ACCEPTING = 2
    """It has offers and accepts one after the other."""
    WORKING = 3


class SimulatedClient:
    """One client of a trace, whose availability repeats every `period` seconds."""

    __slots__ = (
        "_at",
        "_cycle",
        "_period",
        "began",
        "epoch",
        "kind",
        "met",
        "number",
        "place",
        "private",
        "record",
        "state",
        "trace",
    )

    def __init__(self, number: int, trace: ClientTrace, period: float) -> None:
        self.number = number
        self.trace = trace
        self.state = State.AWAY
        self.epoch = 0
        """Counts what it has begun, so that what was to come of something else is known."""
        self.place: Place = (0.0, number)
        self.kind: Any = None
        self.met: frozenset[Any] = frozenset()
        self.private = {"samples": float(trace.samples)}
        """The attributes that it keeps to itself."""
        self.began = 0.0
        self.record: Client | None = None
        self._period = period
        self._cycle, self._at = 0, 0

    def check_in(self, now: float) -> None:
        """Register with the control plane, as the client does whenever it asks for offers."""
        mine = self.trace
        _, self.record = clients.check_in(None, mine.id, mine.attributes, mine.speed, now)

    def next_session(self, now: float) -> tuple[float, float] | None:
        """Return the beginning and end of the next session that ends after `now`.

        A session that lasts until the period is over goes on in the next where that begins with
        one. None: it is never available again. The session of a client that is always available
        has no end.
        """
        spans = self.trace.available
        if not spans:
            return None
        if len(spans) == 1 and spans[0][0] == 0 and spans[0][1] / 1000 == self._period:
            return 0.0, float("inf")
        while True:
            start, end = self._take()
            if end == self._cycle_end and spans[0][0] == 0:
                end = self._take()[1]
            if end > now:
                return max(start, now), end

    @property
    def _cycle_end(self) -> float:
        """Return the end of the period that the last session taken began in."""
        cycle = self._cycle if self._at else self._cycle - 1
        return (cycle + 1) * self._period

    def _take(self) -> tuple[float, float]:
        start, end = (instant / 1000 for instant in self.trace.available[self._at])
        shift = self._cycle * self._period
        self._at += 1
        if self._at == len(self.trace.available):
            self._cycle, self._at = self._cycle + 1, 0
        return start + shift, end + shift
