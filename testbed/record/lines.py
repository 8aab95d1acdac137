"""Files that outlast a crash: directories synced, and a last line that was cut short repaired."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed.files import open_file, parse_json

MAX_LOG = 1 << 30
"""The most bytes that are read of a file with one JSON value a line: days of a run's events."""

_END = 64 << 10
"""Bytes at the end of an event log in which a run, or a `recover`, says that it is over."""


def sync_directory(path: Path) -> None:
    """Write the names in a directory to the disk, where its file system can do that."""
    with suppress(OSError):
        directory = os.open(path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def repair_torn_line(path: Path) -> None:
    """End the last line of a file with one JSON value a line, which a crash may have cut short.

    Then it can be appended to. A value that lacks only its end of line gets one; a part of a value
    is cut off, as what it was to record was not done yet.
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


def last_objects(path: Path) -> list[dict[str, Any]]:
    """Return the objects at the end of a file with one JSON value a line, without what is cut off.

    Raise OSError for what is no file of such a size.
    """
    with open_file(path, MAX_LOG) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _END))
        lines = file.read(_END).splitlines()
    values = []
    for line in lines:
        with suppress(ValueError):
            values.append(parse_json(line))
    return [value for value in values if isinstance(value, dict)]
