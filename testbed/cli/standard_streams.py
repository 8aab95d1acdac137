"""Where a command's words go: to whoever reads them, or nowhere; its exit code is its own."""

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
"""What is said of words without a reader, on a pipe, a socket, a terminal; and where none was."""


class StandardStream(io.TextIOWrapper):
    """A standard stream whose words are lost once their reader has gone.

    What a full disk does not take is lost as well, and `trouble` tells why.
    The bytes below go out by C alone: a signal that raised between writing and forgetting them
    would have them written twice.
    """

    trouble = ""

    def write(self, words: str, /) -> int:
        """Write text that no terminal obeys; what nobody can read any more counts as written."""
        self.write_unfiltered(printable(words, kept="\n\t"))
        return len(words)

    def write_unfiltered(self, words: str) -> int:
        """Write what is meant for the terminal itself, such as colours; secrets are masked."""
        try:
            return super().write(masked(words))
        except OSError as error:
            self._give_up(error)
        return len(words)

    @property
    def unfiltered(self) -> UnfilteredStream:
        """Return the same stream for whoever cleans the text of others himself."""
        return UnfilteredStream(self)

    def flush(self) -> None:
        """Hand over what was written, unless nobody takes it any more."""
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
    """A standard stream that takes control characters too; all else is that stream's."""

    def __init__(self, words: StandardStream) -> None:
        self._words = words

    def write(self, words: str, /) -> int:
        """Write text as it is."""
        return self._words.write_unfiltered(words)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._words, name)


def open_streams() -> None:
    """Let no reader of the standard streams end this command: one who leaves, or never was.

    What a file may hold and no terminal can show is written with backslashes.
    """
    redirect_closed_streams_to_devnull()
    sys.stdout, sys.stderr = _stream(1, sys.stdout), _stream(2, sys.stderr)


def redirect_closed_streams_to_devnull() -> None:
    """Say to nobody what is still to be said on a standard stream that is closed."""
    for descriptor in (1, 2):
        try:
            os.write(descriptor, b"")
        except OSError as error:
            if error.errno not in _GONE:
                continue
            _redirect_to_devnull(descriptor)


def _redirect_to_devnull(descriptor: int) -> None:
    nobody = os.open(os.devnull, os.O_WRONLY)
    if nobody != descriptor:
        os.dup2(nobody, descriptor)
        os.close(nobody)


def flushed(code: int) -> int:
    """Hand over the last of the output; return the exit code, another than 0 where it is lost."""
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
    """Return the stream of a descriptor, otherwise as Python made it."""
    if not isinstance(given, io.TextIOWrapper):  # it was closed when we began
        given = io.TextIOWrapper(io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False)))
    encoding, is_flushed = given.encoding, given.line_buffering or given.write_through
    return StandardStream(given.detach(), encoding, "backslashreplace", line_buffering=is_flushed)
