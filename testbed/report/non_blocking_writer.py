"""Write to a stream without blocking on a slow reader."""

from __future__ import annotations

import io
import select
from collections import deque
from contextlib import suppress
from threading import Lock
from typing import TextIO

_PIECE = select.PIPE_BUF // len("\\U0001f600")
"""Characters of which a pipe that takes any bytes takes all, in whatever encoding."""

PATIENCE = 1.0
"""Seconds to wait for a slow reader at the end, piece by piece."""


class NonBlockingWriter:
    """Writes as much text as the stream accepts at once, and queues the rest.

    A reader that does not read (a pager, a stopped terminal) or has closed the stream never blocks
    the writer. With more than `most` queued pieces the oldest are dropped.
    """

    def __init__(self, stream: TextIO, most: int | None = 1000) -> None:
        self._stream = stream
        self._pending: deque[str] = deque(maxlen=most)
        self._lock = Lock()

    def write(self, text: str) -> None:
        """Write text, or queue it after earlier text; callable from any thread."""
        self._pending.extend([text[at : at + _PIECE] for at in range(0, len(text), _PIECE)])
        self.flush()

    def flush(self, patience: float | None = 0.0) -> None:
        """Write the queue, waiting up to `patience` seconds for each piece; None has no limit."""
        with self._lock, suppress(OSError):  # the reader is gone
            while self._pending and _is_writable(self._stream, patience):
                self._stream.write(self._pending.popleft())
                self._stream.flush()


def _is_writable(stream: TextIO, seconds: float | None) -> bool:
    """Wait until a stream can be written to without blocking; return whether it can."""
    try:
        poll = select.poll()
        poll.register(stream, select.POLLOUT)
    except io.UnsupportedOperation:
        return True  # a stream in memory
    return bool(poll.poll(None if seconds is None else seconds * 1e3))
