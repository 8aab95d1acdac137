"""Files on the disk: what makes them outlast a crash, and mends what one cut short."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from testbed.files import open_file, parse_json

MAX_LOG = 1 << 30
"""Bytes of the longest file of one JSON value a line that is read: days of a run's events."""


def sync_directory(path: Path) -> None:
    """Have the names in a directory on the disk, where its file system can do that."""
    with suppress(OSError):
        directory = os.open(path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def repair_torn_line(path: Path) -> None:
    """Bring a file of one JSON value a line, cut short by a crash, to the end of a line.

    Then it can be appended to. A last line that lacks only its end gets it; a piece of one is cut
    off, as nothing was done that it was to tell of.
    """
    if not path.exists():
        return
    with open_file(path, MAX_LOG, "r+b") as file:
        whole, end, tail = file.read().rpartition(b"\n")
        if not tail:
            return
        try:
            parse_json(tail)
        except ValueError:
            file.truncate(len(whole + end))
        else:
            file.write(b"\n")
        file.flush()
        os.fsync(file.fileno())
