"""Measure the offset of a host's clock from this machine's, with its round-trip bound.

A request leaves at t1 and arrives at t2, the answer leaves at t3 and arrives at t4; t2 and t3 are
on the host's clock. The offset is ((t2 - t1) + (t3 - t4)) / 2 and its error at most half of (t4 -
t1) - (t3 - t2), however asymmetric the delays (Cristian 1989; RFC 5905, section 8).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from testbed.analysis.clocks import Clocks
from testbed.bench.link import AgentLink, Answer
from testbed.clock import Deadline, now
from testbed.errors import HostError, LabError
from testbed.events import Event
from testbed.record.log import EventLog

QUESTIONS = 16

PERIOD = 0.5
"""Seconds between two measurements of every host's clock, all through a run. Clocks come apart by
1.2 ms in a second at most, so what is in between is known to 0.3 ms more than they are."""

_FEW = 2
"""Questions of each of these measurements, at most: of a twin of 17 hosts six took a third of two
processors, and as all else waited for them, bounds were no narrower (decision 23) …"""
_GOOD = 0.2e-3
"""… and the bound with which one is good enough."""
_LIMIT = 5.0

_watched = count()
"""Numbers the hosts whose clocks are measured, for each to begin at another time."""
_GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it, modulo 1, are spread evenly, however many there are."""


@dataclass(frozen=True, slots=True)
class Offset:
    """A host's monotonic clock minus this machine's, in seconds, measured at `at` to ± `bound`."""

    offset: float
    bound: float
    at: float


def measure_offset(
    link: AgentLink, deadline: Deadline, questions: int = QUESTIONS, good: float = 0.0
) -> Offset:
    """Measure the clock offset; the request with the shortest round trip counts.

    Blocks for about a millisecond per request; stops early at an offset whose bound is `good` or
    less.
    """
    found = offset_of(link.ask("clock", deadline))
    for _ in range(questions - 1):
        if found.bound <= good:
            break
        found = min(found, offset_of(link.ask("clock", deadline)), key=lambda one: one.bound)
    return found


def watch_offset(link: AgentLink, callback: Callable[[Offset], None]) -> None:
    """Measure the clock offset periodically until the link ends; skip requests that time out.

    Hosts are measured at different times of a period: together they would lengthen each other's
    round trips, and all else that this machine does.
    """
    due = now() + PERIOD * (next(_watched) * _GOLDEN % 1)
    while not link.is_over_within(max(0.0, due - now())):
        with suppress(HostError):
            callback(measure_offset(link, Deadline.after(_LIMIT), _FEW, _GOOD))
        due = max(due + PERIOD, now())


def offset_of(answer: Answer) -> Offset:
    """Compute the offset from one answer to the request `clock`."""
    t1, (t2, t3), t4 = answer.sent, answer.value, answer.received
    return Offset(((t2 - t1) + (t3 - t4)) / 2, ((t4 - t1) - (t3 - t2)) / 2, (t1 + t4) / 2)


class HostClocks:
    """The measured clock offsets of the hosts; each one is written to the event log."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self.known = Clocks()

    def start(self, ready: Event) -> None:
        """Start a new series of measurements for a host that has booted."""
        self.known.add(ready)

    def add_offset(self, host: str, found: Offset) -> None:
        """Add one clock offset, from any thread; ignored once the log is closed or full."""
        ahead = found.offset + self._log.started
        with suppress(LabError, ValueError):
            self.known.add(
                self._log.append("clock.offset", host, at=found.at, ahead=ahead, bound=found.bound)
            )
