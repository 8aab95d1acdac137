"""What the links deliver before a job runs: long messages, and short ones after a pause.

All ranks send to their next at the same time, as they do in an AllReduce. The long message gives
the rate; the short ones show the credit of a token bucket, which lets what fits into its burst
pass at the speed of the wire after a pause.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from .ring import Ring, check_opening

LONG = 8 << 20
LEAD = LONG // 8
"""Bytes at the head of the long message that are not timed: the bucket's credit and TCP's start."""

SHORT = 64 << 10
SHORT_COUNT = 5
PAUSE = 0.05

_PIECE = 256 << 10


@dataclass(frozen=True)
class LinkProbe:
    """What one rank measured of the links beside it.

    `long_bytes` came from the previous rank in `long_seconds`, on this rank's clock.
    `short_seconds` is the median time from sending `short_bytes` to the next rank until its one
    byte of answer: once there and back, on this rank's clock as well.
    """

    long_bytes: int
    long_seconds: float
    short_bytes: int
    short_seconds: float
    credit: float = 0.0
    """Bytes that a line lets pass at once after a pause, where that was measured."""


def probe(ring: Ring) -> LinkProbe:
    """Measure the links of a ring; every rank must call this. Raises what the ring raises."""
    size = LONG + SHORT * SHORT_COUNT
    ring.send(ring.opening(b"PROB", size))
    expected = ring.expected(b"PROB", size)
    check_opening(ring.receive(len(expected)), expected)
    long_seconds = _long(ring)
    ring.barrier()  # a rank that still sends its long message would answer late
    short_seconds = statistics.median(_ShortMessages(ring).run())
    return LinkProbe(LONG - LEAD, long_seconds, SHORT, short_seconds)


def _long(ring: Ring) -> float:
    """Send and receive the long message; return the seconds its timed part took to arrive."""
    piece = memoryview(bytearray(_PIECE))
    to_send = to_receive = LONG
    begin = end = 0.0
    while to_send or to_receive:
        sent = ring.links.send(piece[:to_send]) if to_send else 0
        most = to_receive - (LONG - LEAD) if to_receive > LONG - LEAD else to_receive
        received = ring.links.receive(piece[:most]) if to_receive else 0
        to_send, to_receive = to_send - sent, to_receive - received
        if received:
            end = time.monotonic()
            if to_receive >= LONG - LEAD:
                begin = end
        if sent or received:
            ring.checkpoint()
        else:
            ring.links.wait(reading=to_receive > 0, writing=to_send > 0)
    return end - begin


class _ShortMessages:
    """Send short messages after pauses while answering those of the previous rank."""

    def __init__(self, ring: Ring) -> None:
        self._links = ring.links
        self._piece = memoryview(bytearray(SHORT))
        self._to_send = 0
        self._to_receive = SHORT * SHORT_COUNT
        self._send_at: float | None = time.monotonic() + PAUSE
        self._begin = 0.0
        self._seconds: list[float] = []

    def run(self) -> list[float]:
        """Return the seconds of every round trip once all are over on both sides."""
        while len(self._seconds) < SHORT_COUNT or self._to_receive:
            if self._send_at is not None and time.monotonic() >= self._send_at:
                self._begin, self._send_at, self._to_send = time.monotonic(), None, SHORT
            if self._send() | self._receive() | self._hear():
                self._links.checkpoint()
            else:
                self._wait()
        return self._seconds

    @property
    def _awaits_answer(self) -> bool:
        return self._send_at is None and not self._to_send and len(self._seconds) < SHORT_COUNT

    def _send(self) -> bool:
        if not self._to_send:
            return False
        sent = self._links.send(self._piece[: self._to_send])
        self._to_send -= sent
        return sent > 0

    def _receive(self) -> bool:
        if not self._to_receive:
            return False
        rest = self._to_receive % SHORT or SHORT
        received = self._links.receive(self._piece[:rest])
        self._to_receive -= received
        if received == rest:
            self._links.answer(self._piece[:1])
        return received > 0

    def _hear(self) -> bool:
        if not self._awaits_answer or not self._links.hear(self._piece[:1]):
            return False
        now = time.monotonic()
        self._seconds.append(now - self._begin)
        if len(self._seconds) < SHORT_COUNT:
            self._send_at = now + PAUSE
        return True

    def _wait(self) -> None:
        pause = None if self._send_at is None else max(0.0, self._send_at - time.monotonic())
        self._links.wait(
            reading=self._to_receive > 0,
            writing=self._to_send > 0,
            hearing=self._awaits_answer,
            seconds=pause,
        )
