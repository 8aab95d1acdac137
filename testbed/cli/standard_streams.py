"""Standard streams for which a closed pipe is no error; the exit code does not change."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import Any, TextIO

from testbed.concealed import masked
from testbed.errors import EXIT_LAB
from testbed.printable import printable

_GONE = (errno.EPIPE, errno.ECONNRESET, errno.EIO, errno.EBADF)
"""Errors of writing without a reader: to a pipe, a socket, a terminal, a closed descriptor."""


class StandardStream(io.TextIOWrapper):
    """A standard stream that discards text once its reader is gone.

    Text that a full disk does not take is discarded as well, and `trouble` holds the reason. Bytes
    are written by C code alone: a signal handler that raised between writing bytes and removing
    them from the buffer would cause them to be written twice.
    """

    trouble = ""

    def write(self, words: str, /) -> int:
        """Write text without control characters; text without a reader counts as written."""
        self.write_unfiltered(printable(words, kept="\n\t"))
        return len(words)

    def write_unfiltered(self, words: str) -> int:
        """Write text with control characters, such as colours; secrets are masked."""
        try:
            return super().write(masked(words))
        except OSError as error:
            self._give_up(error)
        return len(words)

    @property
    def unfiltered(self) -> UnfilteredStream:
        """Return the same stream for callers that remove control characters themselves."""
        return UnfilteredStream(self)

    def flush(self) -> None:
        """Flush the buffer, unless the reader is gone."""
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        if error.errno in _GONE:
            redirect_closed_streams_to_devnull()
        else:
            self.trouble = error.strerror or str(error)
            _redirect_to_devnull(self.fileno())


class UnfilteredStream:
    """A standard stream that does not remove control characters."""

    def __init__(self, words: StandardStream) -> None:
        self._words = words

    def write(self, words: str, /) -> int:
        """Write text unchanged."""
        return self._words.write_unfiltered(words)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._words, name)


def open_streams() -> None:
    """Replace the standard streams, so that a closed pipe does not end this command.

    Characters that the encoding lacks are written with backslashes.
    """
    redirect_closed_streams_to_devnull()
    sys.stdout, sys.stderr = _stream(1, sys.stdout), _stream(2, sys.stderr)


def redirect_closed_streams_to_devnull() -> None:
    """Redirect a standard stream whose reader is gone to /dev/null."""
    for descriptor in (1, 2):
        try:
            os.write(descriptor, b"")
        except OSError as error:
            if error.errno not in _GONE:
                continue
            _redirect_to_devnull(descriptor)


def _redirect_to_devnull(descriptor: int) -> None:
    devnull = os.open(os.devnull, os.O_WRONLY)
    if devnull != descriptor:
        os.dup2(devnull, descriptor)
        os.close(devnull)


def flushed(code: int) -> int:
    """Flush the output; return the exit code, or EXIT_LAB instead of 0 where output was lost."""
    sys.stdout.flush()
    if trouble := getattr(sys.stdout, "trouble", ""):
        what = f"writing to standard output failed: {trouble}"
        print(f"testbed: {what}; free space on the disk, or send it elsewhere", file=sys.stderr)
        return code or EXIT_LAB
    return code


def is_read(stream: TextIO) -> bool:
    """Return whether a stream may still have a reader."""
    poll = select.poll()
    try:
        poll.register(stream, 0)
    except io.UnsupportedOperation:
        return True  # a stream in memory
    return not poll.poll(0)


def _stream(descriptor: int, given: TextIO | None) -> TextIO:
    """Return a StandardStream of a descriptor, with the settings of Python's own."""
    if not isinstance(given, io.TextIOWrapper):  # it was closed when we began
        given = io.TextIOWrapper(io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False)))
    encoding, is_flushed = given.encoding, given.line_buffering or given.write_through
    return StandardStream(given.detach(), encoding, "backslashreplace", line_buffering=is_flushed)
