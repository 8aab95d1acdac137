"""The cost of a schedule by the α-β model when ranks wait only for the data that they need.

In `cost` a round begins when the one before has ended at all ranks. Ranks on circuits have a line
to each peer and go on as soon as they can: a line carries one message after the other, and each
byte as soon as earlier rounds are done with it. What a rank only passes on it must have whole.
Around a ring both models agree, except for the burst that a rate limiter lets pass after a pause.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from testbed.collectives.cost import Links, arrivals_of, sizes_of
from testbed.collectives.forwarding import Forwarded
from testbed.collectives.schedule import Schedule


def seconds_at_own_pace(
    schedule: Schedule | Forwarded,
    size: int,
    links: Links,
    late: Mapping[int, float] | None = None,
    changes: Collection[int] = (),
) -> tuple[float, float]:
    """Return the total time of a schedule, and its time since the last rank's arrival.

    `size` is in bytes. `late` maps ranks to the seconds by which they arrive after the others; what
    is sent to one before it is there waits. `changes` are the rounds before which the switch is
    re-pointed: that begins when all ranks that act between the previous change and the next one are
    done.
    """
    sends = _sends(schedule)
    arrivals = arrivals_of(sends, late)
    rounds = list(_rounds(schedule, sends, size))
    ranks = _Ranks(arrivals.tolist(), rounds, links)
    before: set[int] = set()
    for first, behind in pairwise(sorted({0, *changes, len(rounds)})):
        acting = {end for step in rounds[first:behind] for one in step for end in one.line}
        if first in changes:
            ranks.change(before | acting)
        for step in rounds[first:behind]:
            ranks.run(step)
        before = acting
    total = max(ranks.until)
    return total, total - float(arrivals.max())


def seconds_from_run_to_run(
    schedule: Schedule | Forwarded, size: int, links: Links, late: Mapping[int, float]
) -> float:
    """Return the mean time from one run of a schedule to the next, in the long run.

    A rank comes to a run as soon as its own part of the run before is over; one of `late` so many
    seconds after that. So one whose part ends before those of others is late by less. It is the
    slowest round trip between ranks that counts, of as many runs at most as there are ranks
    (Baccelli et al., Synchronization and Linearity, 1992, 2.5).
    """
    sends = _sends(schedule)
    pauses = arrivals_of(sends, late).tolist()
    rounds = list(_rounds(schedule, sends, size))
    ends, times = [0.0] * sends.ranks, list[float]()
    for _ in range(2 * sends.ranks):
        arrivals = [end + pause for end, pause in zip(ends, pauses, strict=True)]
        ranks = _Ranks(arrivals, rounds, links)
        for step in rounds:
            ranks.run(step)
        ends = ranks.until
        times.append(max(ends))
    return (times[-1] - times[sends.ranks - 1]) / sends.ranks


def _sends(schedule: Schedule | Forwarded) -> Schedule:
    return schedule.as_sends() if isinstance(schedule, Forwarded) else schedule


class _Message(NamedTuple):
    """A send, or one hop of it, which may forward a message or bring one to forward (`held`)."""

    line: tuple[int, int]
    chunks: range
    size: int
    passed_on: int | None = None
    held: int | None = None


class _Span(NamedTuple):
    """From when there are bytes of something, and from when all of them."""

    first: float
    last: float

    def and_of(self, other: _Span) -> _Span:
        """Return the span of bytes for which both must be over."""
        return _Span(max(self.first, other.first), max(self.last, other.last))


def _rounds(schedule: Schedule | Forwarded, sends: Schedule, size: int) -> Iterator[list[_Message]]:
    for number, step in enumerate(sends.rounds):
        hops: Sequence[tuple[int | None, int | None]] = [(None, None)] * len(step)
        if isinstance(schedule, Forwarded):
            hops = [(hop.passed_on, hop.held) for hop in schedule.rounds[number]]
        sizes = sizes_of(sends, step, size).tolist()
        yield [
            _Message((one.source, one.destination), range(one.chunk, one.chunk + one.count), *rest)
            for one, *rest in zip(step, sizes, *zip(*hops, strict=True), strict=True)
        ]


class _Ranks:
    """When ranks have what, and are done with what, after the rounds so far."""

    def __init__(
        self, arrivals: Sequence[float], rounds: Sequence[Sequence[_Message]], links: Links
    ) -> None:
        self.until = list(arrivals)
        """Until when each has something to do."""
        self._here = list(self.until)
        """Since when each is there, with its present circuits."""
        self._links = links
        chunks = max((one.chunks.stop for step in rounds for one in step), default=0)
        self._has = [[_Span(here, here)] * chunks for here in self._here]
        self._sent = [[_Span(-np.inf, -np.inf)] * chunks for _ in self._here]
        self._held: dict[int, float] = {}
        self._busy: dict[tuple[int, int], float] = {}
        """Until when each line was."""

    def change(self, ranks: Collection[int]) -> None:
        """Re-point circuits once these ranks are done."""
        there = max(self.until[rank] for rank in ranks) + self._links.reconfiguration
        for rank in ranks:
            self._here[rank] = self.until[rank] = there

    def run(self, messages: Sequence[_Message]) -> None:
        """Carry the messages of a round; each reads what its source had before the round."""
        spans = [self._carried(message) for message in messages]
        for message, span in zip(messages, spans, strict=True):
            source = message.line[0]
            self._busy[message.line] = span.last
            for rank in message.line:
                self.until[rank] = max(self.until[rank], span.last)
            if message.passed_on is None:
                for chunk, part in self._parts(message, span):
                    self._sent[source][chunk] = part.and_of(self._sent[source][chunk])
        for message, span in zip(messages, spans, strict=True):
            self._take(message, span)

    def _carried(self, message: _Message) -> _Span:
        """Return from when to when bytes of a message arrive."""
        source, destination = message.line
        idle = self._busy.get(message.line, -np.inf)
        ready = self._ready(message)
        begin = max(self._here[source], self._here[destination], ready.first, idle)
        alpha, beta = self._links.alpha, self._links.beta
        free = min(self._links.credit * beta, begin - idle)
        end = begin + max(message.size * beta - free, 0)
        return _Span(begin + alpha, max(end, ready.last) + alpha)

    def _ready(self, message: _Message) -> _Span:
        """Return from when its first byte can go, and from when its last."""
        if message.passed_on is not None:
            return _Span(*[self._held[message.passed_on]] * 2)
        has, share = self._has[message.line[0]], self._share(message)
        behind = len(message.chunks) - 1
        return _Span(
            max(has[chunk].first - place * share for place, chunk in enumerate(message.chunks)),
            max(
                has[chunk].last + (behind - place) * share
                for place, chunk in enumerate(message.chunks)
            ),
        )

    def _take(self, message: _Message, span: _Span) -> None:
        """Let the destination have what came, once it has sent its own of the same chunks."""
        rank = message.line[1]
        if message.held is not None:
            self._held[message.held] = span.last
            return
        for chunk, part in self._parts(message, span):
            self._has[rank][chunk] = found = part.and_of(self._sent[rank][chunk])
            self.until[rank] = max(self.until[rank], found.last)

    def _parts(self, message: _Message, span: _Span) -> Iterator[tuple[int, _Span]]:
        """Yield from when to when each chunk of a message arrives."""
        share, behind = self._share(message), len(message.chunks) - 1
        for place, chunk in enumerate(message.chunks):
            first, last = span.first + place * share, span.last - (behind - place) * share
            yield chunk, _Span(min(first, last), last)

    def _share(self, message: _Message) -> float:
        return message.size * self._links.beta / len(message.chunks)
