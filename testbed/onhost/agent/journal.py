"""The journal of an agent: changes of its host, written and synced before each change.

One file for each agent, locked for as long as that lives. An agent that ends normally removes it;
the journal of a killed agent is unlocked, and the next agent on the host undoes its entries, last
first. Entries contain no code or commands: each kind of undo has a name that `undo` knows. The file
describes the state of one kernel, so a reboot of the machine makes it void.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Optional

from .processes import end_process, start_time

_PREDECESSOR_LIMIT = 2.0
"""Seconds that an agent of the same run and host may take to end in good order."""
_KILL_LIMIT = 5.0
_PAUSE = 0.01


class HostJournal:
    """The journal of this process: call `record` before a change, `mark_undone` after its undo."""

    def __init__(self, run: str, host: str) -> None:
        """Make the file; raise OSError when no place takes it."""
        me = os.getpid()
        self.run, self.host = run, host
        self.mark = f"{run}/{host}/{me}-{start_time(me)}"
        self._open: dict[int, dict[str, Any]] = {}
        self._next = 0
        header = {"run": run, "host": host, "pid": me, "born": start_time(me), "kernel": _kernel()}
        problems = []
        for place in _places():
            try:
                self._path, self._file = _create(place, header)
            except OSError as error:
                problems.append(f"{place}: {error.strerror}")
            else:
                return
        raise OSError(f"no undo can be written on this host: {'; '.join(problems)}")

    def record(self, undo: str, **arguments: Any) -> int:
        """Write the undo of the change that follows; raise OSError when the write fails."""
        number = self._next
        self._next += 1
        entry = {"id": number, "undo": undo, **arguments}
        try:
            _append(self._file, entry)
        except OSError as error:
            raise OSError(f"writing {self._path} failed: {error.strerror}") from error
        self._open[number] = entry
        return number

    def mark_undone(self, number: int) -> None:
        """Mark an undo as done and verified; if the disk is full, it will be done twice.

        An undo has no effect when there is nothing left to undo.
        """
        self._open.pop(number, None)
        with suppress(OSError):
            _append(self._file, {"done": number})

    def entries(self) -> list[dict[str, Any]]:
        """Return the entries that are not marked as undone, last first."""
        return list(self._open.values())[::-1]

    def close(self) -> None:
        """Remove the file, unless an entry is not yet undone."""
        if not self._open:
            self._path.unlink(missing_ok=True)
            remove_if_empty(self._path.parent, self._path.parent)
        os.close(self._file)


class OrphanedJournal:
    """The journal of a dead agent, locked against other agents meanwhile."""

    def __init__(self, path: Path, descriptor: int, header: dict[str, Any]) -> None:
        self.path = path
        self._descriptor = descriptor
        self.run: str = header["run"]
        self.host: str = header["host"]

    def entries(self) -> list[dict[str, Any]]:
        """Return the entries not marked as undone, last first; a truncated line is ignored."""
        found: dict[int, dict[str, Any]] = {}
        for line in self.path.read_bytes().split(b"\n")[1:]:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if "done" in entry:
                found.pop(entry["done"], None)
            else:
                found[entry["id"]] = entry
        return [found[number] for number in sorted(found, reverse=True)]

    def discard(self) -> None:
        """Remove the file, since all its entries are undone."""
        self.path.unlink(missing_ok=True)
        self.release()
        remove_if_empty(self.path.parent, self.path.parent)

    def release(self) -> None:
        """Unlock the file and leave it to the next agent."""
        os.close(self._descriptor)


def orphaned_journals(run: str, host: str) -> list[OrphanedJournal]:
    """Return the journals of dead agents, oldest first.

    An older agent of the same run and host was abandoned by the orchestrator that started this one:
    it gets a moment to end, then it is killed. Living agents of other runs are not affected.
    """
    found = []
    for path in sorted(_files(), key=_age):
        orphan, header = _take(path), _header(path)
        is_predecessor = (header.get("run"), header.get("host")) == (run, host)
        if orphan is None and is_predecessor and header["pid"] != os.getpid():
            orphan = _inherit(path, header["pid"], header["born"])
        if orphan is not None:
            found.append(orphan)
    return found


def _take(path: Path) -> Optional[OrphanedJournal]:
    """Lock a dead agent's journal; None when it lives, or its file is void and now removed."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None  # just removed by its agent
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    header = _header(path)
    boot, _, where = _kernel().partition(" ")
    theirs = header.get("kernel", "").partition(" ")
    if theirs[0] != boot:
        path.unlink(missing_ok=True)  # begun and nothing recorded in it, or of another boot
    elif theirs[2] == where:
        return OrphanedJournal(path, descriptor, header)
    os.close(descriptor)
    return None  # a container's, which shares only the directory with us


def _inherit(path: Path, pid: int, born: str) -> Optional[OrphanedJournal]:
    """Wait for a predecessor to end, or end it; return what it left, if anything."""
    end = time.monotonic() + _PREDECESSOR_LIMIT
    while start_time(pid) == born and time.monotonic() <= end:
        time.sleep(_PAUSE)
    end_process(pid, born, _KILL_LIMIT)
    return _take(path)


def _header(path: Path) -> dict[str, Any]:
    """Return a journal's header; nothing where the file is gone or was only begun."""
    try:
        header: dict[str, Any] = json.loads(path.read_bytes().partition(b"\n")[0])
    except (OSError, ValueError):
        return {}
    return header


def _places() -> list[Path]:
    """Return where journals may be, best first.

    A directory that is emptied when the machine starts is best, and a user's runtime directory
    no place at all: it vanishes when the user's last session ends, which may be the agent's own.
    """
    name = f"testbed-agents-{os.geteuid()}"
    return [Path(root) / name for root in ("/run", "/tmp", "/dev/shm")]  # noqa: S108


def _files() -> list[Path]:
    return [path for place in _places() if is_ours(place) for path in place.glob("*.jsonl")]


def _create(place: Path, header: dict[str, Any]) -> tuple[Path, int]:
    """Make a locked file that holds the header before another process can see it."""
    path = place / f"{header['pid']}-{header['born']}.jsonl"
    draft = path.with_suffix(".new")
    for is_last in (False, True):
        try:
            place.mkdir(mode=0o700)
        except FileExistsError:
            if not is_ours(place):
                raise
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
            descriptor = os.open(draft, flags, 0o600)
            break
        except FileNotFoundError:  # another agent ended, and the directory with it
            if is_last:
                raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        _append(descriptor, header)
        draft.rename(path)
    except OSError:
        os.close(descriptor)
        draft.unlink(missing_ok=True)
        raise
    return path, descriptor


def _append(descriptor: int, entry: dict[str, Any]) -> None:
    """Write one entry whole and synced, or not at all."""
    data = json.dumps(entry).encode() + b"\n"
    before = os.fstat(descriptor).st_size
    try:
        if os.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, before)  # half an entry would spoil the next one
        raise


def is_ours(place: Path) -> bool:
    """Tell whether a directory is there and no other user could have written in it."""
    try:
        found = place.lstat()
    except OSError:
        return False
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not others


def remove_if_empty(path: Path, last: Path) -> None:
    """Remove directories up to `last` in which nothing is any more."""
    with suppress(OSError):  # others have something there
        while path != last.parent:
            path.rmdir()
            path = path.parent


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _kernel() -> str:
    """Return what a change on this host is a change of: this boot, these networks and processes."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    spaces = (Path("/proc/self/ns", name).readlink() for name in ("net", "pid"))
    return " ".join([boot, *map(str, spaces)])
