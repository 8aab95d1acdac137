"""The undo journal: what must be taken back, written and synced before it is done.

Each line is one entry. `{"id": 3, "undo": "outlet", ...}` is written before the act; `{"done": 3}`
after its undo was verified. What a crashed run left behind is every entry without a `done`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from testbed.errors import LabError, UnsafeError


class Journal:
    """Append undo entries, each on the disk before `promise` returns."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("x", encoding="utf-8")
        self._lock = Lock()
        self._next = 0

    def promise(self, undo: str, **arguments: Any) -> int:
        """Write what will take back the act that follows; return the entry's number."""
        with self._lock:
            number = self._next
            self._next += 1
            self._write({"id": number, "undo": undo} | arguments, "nothing was changed")
        return number

    def settle(self, number: int) -> None:
        """Write that an entry's undo was done and verified, or that its act never happened."""
        with self._lock:
            self._write({"done": number}, "what was undone is not marked as undone")

    def close(self) -> None:
        """Close the file; safe to call twice."""
        with self._lock, suppress(OSError):  # what could not be written was said then
            self._file.close()

    def _write(self, entry: Mapping[str, Any], consequence: str) -> None:
        try:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise LabError(
                f"writing the undo journal failed: {error}; {consequence}",
                hint="free space on the disk",
            ) from error


def open_entries(path: Path) -> list[dict[str, Any]]:
    """Return the entries that were never settled, last first: what is still to be taken back.

    The last line may have been cut short by a crash: its act was not done then, or its undo will
    be done once more. Raise UnsafeError for any other line that is no entry.
    """
    entries: dict[int, dict[str, Any]] = {}
    lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
        except ValueError:
            if number == len(lines):
                break
            raise UnsafeError(
                f"{path}:{number}: {line[:80]!r} is no entry of an undo journal",
                hint="find out by hand what is still to be taken back",
            ) from None
        if "done" in entry:
            entries.pop(entry["done"], None)
        else:
            entries[entry["id"]] = entry
    return [entries[number] for number in sorted(entries, reverse=True)]
