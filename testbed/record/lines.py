"""Crash-safe files: sync directories, and repair a truncated last line."""

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
    """Sync a directory to disk, where its file system supports that."""
    with suppress(OSError):
        directory = os.open(path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def repair_torn_line(path: Path) -> None:
    """Repair the last line of a file with one JSON value per line, which a crash truncated.

    Then lines can be appended. A complete value without a line end gets one; a partial value is
    removed, as the action that it was to record had not been done.
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
    """Return the objects in the last lines of a file with one JSON value per line.

    A truncated line is left out. Raise OSError if the file is too large or no regular file.
    """
    with open_file(path, MAX_LOG) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _END))
        lines = file.read(_END).splitlines()
    values = []
    for line in lines:
        with suppress(ValueError):
            values.append(parse_json(line))
    return [value for value in values if isinstance(value, dict)]
