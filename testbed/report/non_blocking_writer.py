"""What is told to whoever reads a stream, while something goes on that must not wait for him."""

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
"""Seconds for which whoever reads late is waited for in the end, piece by piece."""


class NonBlockingWriter:
    """Write to a stream what its reader takes at once; the rest waits for him, and nobody else.

    Somebody who does not read (a pager, a stopped terminal) or has gone holds nothing up. Where
    more than `most` pieces wait for him, the oldest are lost, as on a terminal.
    """

    def __init__(self, stream: TextIO, most: int | None = 1000) -> None:
        self._stream = stream
        self._pending: deque[str] = deque(maxlen=most)
        self._lock = Lock()

    def write(self, text: str) -> None:
        """Tell something, after what still waits; any thread."""
        self._pending.extend([text[at : at + _PIECE] for at in range(0, len(text), _PIECE)])
        self.flush()

    def flush(self, patience: float | None = 0.0) -> None:
        """Tell what waits, each piece if it is taken within so many seconds; None is for ever."""
        with self._lock, suppress(OSError):  # an error: there is nobody any more
            while self._pending and _is_writable(self._stream, patience):
                self._stream.write(self._pending.popleft())
                self._stream.flush()


def _is_writable(stream: TextIO, seconds: float | None) -> bool:
    """Wait until a stream takes something without making its writer wait; tell whether it does."""
    try:
        poll = select.poll()
        poll.register(stream, select.POLLOUT)
    except io.UnsupportedOperation:
        return True  # a stream in memory
    return bool(poll.poll(None if seconds is None else seconds * 1e3))
