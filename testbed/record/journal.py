"""The undo journal: how to undo each change, written and synced before the change is made.

A write-ahead log with one JSON value a line. `{"id": 3, "undo": "outlet", ...}` is written before
the change; `{"done": 3}` after its undo was verified; `{"extend": 3, ...}` before a further change
that the same undo must cover, with what is added to the entry's lists. Older journals have
`{"amend": 3, ...}` there, with the whole lists. The changes that a crashed run left are the entries
without a `done`. The writer holds a kernel lock on the file, which ends with its process: so the
journal of an ended run is not locked.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, TextIO

from testbed.errors import BusyError, LabError, UnsafeError
from testbed.files import open_file, parse_json, read_lines
from testbed.record.lines import MAX_LOG, repair_torn_line, sync_directory
from testbed.record.locks import is_locked

Entry = dict[str, Any]
"""What is to be undone: `id`, `undo` (its kind), and the arguments of that kind."""


class Journal:
    """Appends undo entries; each is on disk before `record_undo` returns."""

    def __init__(self, path: Path, resumed: TextIO | None = None, number: int = 0) -> None:
        """Begin the journal of a run, or append to one that is locked, from entry `number` on."""
        if resumed is None:
            resumed = path.open("x", encoding="utf-8")
            sync_directory(path.parent)
            # It waits for a `recover` that reads the file at this moment.
            fcntl.flock(resumed, fcntl.LOCK_EX)
        self._file = resumed
        self._lock = Lock()
        self._next = number

    @classmethod
    def resume(cls, path: Path) -> Journal:
        """Append to the journal of a run that has ended; raise BusyError while the run is alive."""
        try:
            file = io.TextIOWrapper(open_file(path, MAX_LOG, "ab"), encoding="utf-8")
        except OSError as error:
            raise LabError(
                f"opening {path} failed: {error.strerror}",
                hint="check that this user may write there",
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise BusyError(
                f"run {path.parent.name} is still running, or being recovered",
                hint="end it with Ctrl-C, or wait for it",
            ) from None
        try:
            repair_torn_line(path)
            number = 1 + max(_read(path), default=-1)
        except BaseException:
            file.close()
            raise
        return cls(path, file, number)

    def record_undo(self, undo: str, **arguments: Any) -> int:
        """Write how to undo the change that follows; return the entry's number."""
        with self._lock:
            number = self._next
            self._next += 1
            self._write({"id": number, "undo": undo} | arguments, "nothing was changed")
        return number

    def extend(
        self,
        number: int,
        *,
        consequence: str = "nothing was changed",
        **lists: Mapping[str, Sequence[Any]],
    ) -> None:
        """Append to the named lists of an entry's arguments, before the change that needs them.

        `extend(3, made={"ocs": [[1, 2]]})` appends to the list `ocs` of the argument `made`.
        `consequence` completes the error message for the case that it cannot be written.
        """
        with self._lock:
            self._write({"extend": number} | lists, consequence)

    def settle(self, number: int) -> None:
        """Close an entry: it was undone and verified, or its change was never made."""
        with self._lock:
            self._write({"done": number}, "what was undone is not marked as undone")

    def close(self) -> None:
        """Close the file; safe to call twice."""
        with self._lock, suppress(OSError):  # a failed write was reported when it failed
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


def open_entries(path: Path) -> list[Entry]:
    """Return the open entries of a journal, last first: those without a verified undo.

    The last line may have been truncated by a crash: then its change was not made, or its undo will
    be repeated. Raise UnsafeError for any other line that is not an entry.
    """
    entries = _read(path)
    return [entry for number in sorted(entries, reverse=True) if (entry := entries[number])]


def has_pending_undo(path: Path) -> bool:
    """Return whether a journal exists and has open entries."""
    return path.exists() and bool(open_entries(path))


def has_entries(path: Path) -> bool:
    """Return whether a journal ever had an entry, so that something may have been changed."""
    return path.exists() and path.stat().st_size > 0


def is_held(path: Path) -> bool:
    """Return whether a process holds a journal: its run is alive or is being recovered."""
    with open_file(path, MAX_LOG) as file:
        return is_locked(file)


def _read(path: Path) -> dict[int, Entry]:
    """Return every entry by its number; those that were settled are empty."""
    entries: dict[int, Entry] = {}
    broken = b""
    for number, line in enumerate(read_lines(path, MAX_LOG), start=1):
        if broken:  # it was not the last line
            raise UnsafeError(
                f"{path}:{number - 1}: {broken[:80]!r} is not an entry of an undo journal",
                hint="check the devices of the lab by hand for changes that are not undone",
            )
        try:
            _take(parse_json(line), entries)
        except (ValueError, KeyError):
            broken = line or b" "
    return entries


def _take(line: Any, entries: dict[int, Entry]) -> None:
    match line:
        case {"done": int(number)}:
            entries[number] = {}
        case {"amend": int(number)}:
            if entry := entries[number]:
                entry |= {key: value for key, value in line.items() if key != "amend"}
        case {"extend": int(number)}:
            if entry := entries[number]:
                for key, lists in line.items():
                    if key != "extend":
                        _extend(entry.setdefault(key, {}), lists)
        case {"id": int(number), "undo": str()}:
            entries[number] = dict(line)
        case _:
            raise ValueError("no entry")


def _extend(lists: Any, more: Any) -> None:
    """Append to lists by their names; raise ValueError where either is something else."""
    if not (isinstance(lists, dict) and isinstance(more, dict)):
        raise ValueError("no lists by name")
    for name, items in more.items():
        known = lists.setdefault(name, [])
        if not (isinstance(known, list) and isinstance(items, list)):
            raise ValueError("no list")
        known.extend(items)
