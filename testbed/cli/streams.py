"""Where a command's words go: to whoever reads them, or nowhere; its exit code is its own."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


_GONE = (errno.EPIPE, errno.ECONNRESET, errno.EIO, errno.EBADF)
"""What is said of words without a reader, on a pipe, a socket, a terminal; and where none was."""


class _Words(io.FileIO):
    """A descriptor for words, which are lost once their reader has gone."""

    def write(self, words: ReadableBuffer, /) -> int:
        """Write bytes; those that nobody can read any more count as written."""
        try:
            return super().write(words)
        except OSError as error:
            if error.errno not in _GONE:
                raise
        return memoryview(words).nbytes


def open_streams() -> None:
    """Let no reader of the standard streams end this command: one who leaves, or never was.

    What a file may hold and no terminal can show is written with backslashes.
    """
    give_up_the_dead()
    sys.stdout, sys.stderr = _stream(1, sys.stdout), _stream(2, sys.stderr)


def give_up_the_dead() -> None:
    """Say to nobody what is still to be said on a standard stream that is closed."""
    for descriptor in (1, 2):
        try:
            os.write(descriptor, b"")
        except OSError as error:
            if error.errno not in _GONE:
                continue
            nobody = os.open(os.devnull, os.O_WRONLY)
            if nobody != descriptor:
                os.dup2(nobody, descriptor)
                os.close(nobody)


def is_read(stream: TextIO) -> bool:
    """Tell whether a stream may still have a reader."""
    poll = select.poll()
    try:
        poll.register(stream, 0)
    except io.UnsupportedOperation:
        return True  # a stream in memory
    return not poll.poll(0)


def _stream(descriptor: int, given: TextIO | None) -> TextIO:
    """Return the stream of a descriptor, otherwise as Python made it."""
    encoding, is_flushed = "utf-8", True
    if isinstance(given, io.TextIOWrapper):
        encoding, is_flushed = given.encoding, given.line_buffering or given.write_through
    return io.TextIOWrapper(
        io.BufferedWriter(_Words(descriptor, "w", closefd=False)),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=is_flushed,
    )
