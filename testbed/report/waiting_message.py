"""Show a message while a command takes long."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event as Flag
from threading import Thread
from typing import TextIO

from testbed.clock import now
from testbed.printable import printable, unfiltered
from testbed.report.non_blocking_writer import NonBlockingWriter

_CLEAR = "\r\x1b[K"
"""Back to the beginning of a terminal's line, and clear it."""

_PATIENCE = 2.0
"""Seconds before a message is shown on a stream that is not a terminal."""


@contextmanager
def waiting(what: str, stream: TextIO, *, stays: bool = False) -> Iterator[None]:
    """Show a message while the block runs; on a terminal with the elapsed time.

    With `stays` the message is shown at once, and with the total time at the end. Otherwise it is
    erased from a terminal at the end, and elsewhere shown only if the block takes over two seconds.
    """
    what = printable(what)
    writer, over, begun = NonBlockingWriter(unfiltered(stream)), Flag(), now()
    is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    if is_terminal or stays:
        writer.write(f"{what}…" + ("" if is_terminal else "\n"))
    show = _count if is_terminal else _show_late
    thread = Thread(target=show, args=(what, writer, over, begun, stays), daemon=True)
    thread.start()
    ended = "not finished"
    try:
        yield
        ended = f"{now() - begun:.1f} s"
    finally:
        over.set()
        thread.join()
        clear = _CLEAR if is_terminal else ""
        writer.write(f"{clear}{what}: {ended}\n" if stays else clear)


def _count(what: str, writer: NonBlockingWriter, over: Flag, begun: float, _: bool) -> None:
    while not over.wait(1.0):
        writer.write(f"{_CLEAR}{what}… {now() - begun:.0f} s")


def _show_late(what: str, writer: NonBlockingWriter, over: Flag, _: float, was_said: bool) -> None:
    if not over.wait(_PATIENCE) and not was_said:
        writer.write(f"{what}…\n")
