"""Kernel file locks on this machine: for exclusive instrument lines, and for liveness.

The kernel releases the lock on a file when its holder ends, however that ends, and also across PID
namespaces, as in a twin.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from testbed.clock import utc
from testbed.errors import BusyError, LabError
from testbed.files import open_file, parse_json

SHARED = Path("/var/tmp/testbed")  # noqa: S108 - shared on purpose, as `/tmp` is
"""The directory for lock files of all users of this machine; it outlasts a reboot."""

_ANY_SIZE = 1 << 62
"""Bytes of a liveness file: every user may append to one, and it is not read."""


def make_shared(directory: Path, *, sticky: bool = True) -> None:
    """Create a directory in which every user of this machine may create files.

    Where it is sticky, as `/tmp` is, no user removes another's; but Linux refuses to open another
    user's file with O_CREAT there, which SQLite does.
    """
    try:
        directory.mkdir()
    except FileExistsError:
        return
    descriptor = os.open(directory, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o1777 if sticky else 0o777)
    finally:
        os.close(descriptor)


def make_shared_file(path: Path, mode: int = 0o666) -> int:
    """Create a file that every user of this machine may open; FileExistsError if it exists."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    os.fchmod(descriptor, mode)  # whatever our umask
    return descriptor


def _open_shared_file(path: Path) -> int:
    """Open an existing file; raise OSError for a link, which may lead to our own files.

    Not with O_CREAT: in a shared directory Linux refuses that for another user's file.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file")


class LivenessLock:
    """Holds a lock that shows other processes that a token's holder runs, until `release`.

    Every byte that is appended to the locked file notifies the holder.
    """

    def __init__(self, token: str) -> None:
        path = liveness_file(token)
        try:
            make_shared(SHARED)
            make_shared(path.parent)
            self._descriptor = make_shared_file(path)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise LabError(
                f"making {path} failed: {error.strerror}",
                hint="check that this user may write there",
            ) from error
        self._path = path

    def notifications(self) -> int:
        """Return how often the holder was notified."""
        return os.fstat(self._descriptor).st_size

    def release(self) -> None:
        """Unlock and remove the file; safe to call twice."""
        if self._descriptor >= 0:
            self._path.unlink(missing_ok=True)
            self.abandon()

    def abandon(self) -> None:
        """Unlock the file and leave it, as a crash would."""
        os.close(self._descriptor)
        self._descriptor = -1


def notify_holder(token: str) -> None:
    """Notify the holder of a token, if it is on this machine, to check its claims."""
    try:
        file = open_file(liveness_file(token), _ANY_SIZE, "ab")
    except OSError:
        return
    with file:
        file.write(b"!")


def is_alive(token: str) -> bool | None:
    """Return whether the holder of a token runs; None without its lock file on this machine."""
    try:
        file = open_file(liveness_file(token), _ANY_SIZE)
    except OSError:
        return None
    with file:
        return is_locked(file)


def is_locked(file: BinaryIO) -> bool:
    """Return whether another process has an exclusive lock on a file."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def liveness_file(token: str) -> Path:
    """Return the file that a token's holder keeps locked while it runs.

    Not beside the store, where every user may remove it: its claim would then end by expiry.
    """
    return SHARED / "signs" / f"{token}.alive"


class InstrumentLock:
    """Locks an instrument from construction to `release`; raises BusyError if it is locked.

    It is for lines that allow one session at a time. The text in the file names the holder.
    """

    def __init__(self, instrument: str, resource: str, run: str) -> None:
        self.resource = resource
        self._path = SHARED / (_safe(resource) + ".lock")
        try:
            make_shared(SHARED)
            self._descriptor = self._acquire(instrument)
        except OSError as error:
            raise LabError(
                f"locking {instrument} with {self._path} failed: {error.strerror}",
                hint="check that it is a file, and that this user may write it",
            ) from error
        owner = {"run": run, "pid": os.getpid(), "host": socket.gethostname(), "since": utc()}
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps(owner).encode(), 0)

    def _acquire(self, instrument: str) -> int:
        while True:
            try:
                descriptor = self._open()
            except FileExistsError:
                continue  # another process made it since we found none
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = _owner(descriptor)
                os.close(descriptor)
                raise BusyError(
                    f"{instrument} is held by run {owner.get('run', 'unknown')} "
                    f"(process {owner.get('pid', 'unknown')}, since {owner.get('since', '?')})",
                    hint="wait for that run, or end it",
                ) from None
            if self._is_current(descriptor):
                return descriptor
            os.close(descriptor)  # its last holder removed the file after we opened it

    def _open(self) -> int:
        try:
            return _open_shared_file(self._path)
        except FileNotFoundError:
            return make_shared_file(self._path)

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.lstat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Unlock the instrument and remove the lock file, if it is ours; safe to call twice."""
        if self._descriptor >= 0:
            if self._is_current(self._descriptor):
                with suppress(PermissionError):  # another user made the file: only they may
                    self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> InstrumentLock:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def _safe(resource: str) -> str:
    return "".join(c if c.isalnum() or c in "-." else "_" for c in resource)


def _owner(descriptor: int) -> dict[str, Any]:
    try:
        owner = parse_json(os.pread(descriptor, 4096, 0))  # every user may write there
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}
