"""Linux namespaces by system calls, as Python has its own wrappers only from 3.12 on.

Everything here works for an ordinary user: the user namespace comes first and gives the rest.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from testbed.twin.signals import ENDING, FORWARDED

NEWTIME = 0x00000080
NEWNS = 0x00020000
NEWUTS = 0x04000000
NEWIPC = 0x08000000
NEWUSER = 0x10000000
NEWPID = 0x20000000
NEWNET = 0x40000000
MACHINE = NEWNET | NEWNS | NEWUTS | NEWIPC | NEWPID
"""The namespaces of a machine of its own, besides that of users."""

_MS_REC, _MS_PRIVATE, _MS_SLAVE, _MS_BIND = 0x4000, 0x40000, 0x80000, 0x1000
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones; see unshare(2)."""
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int = 0) -> None:
    """Enter the namespace behind an open file; see setns(2). Affects this thread only."""
    _check(_libc.setns(fd, kind), "setns")


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def mount(source: str, target: str | Path, kind: str, options: str = "") -> None:
    """Mount a file system."""
    arguments = (source.encode(), os.fsencode(target), kind.encode())
    _check(_libc.mount(*arguments, 0, options.encode() or None), f"mount {kind} on {target}")


def bind(source: str | Path, target: str | Path) -> None:
    """Show the file or directory `source` at `target` too."""
    arguments = (os.fsencode(source), os.fsencode(target))
    _check(_libc.mount(*arguments, None, _MS_BIND | _MS_REC, None), f"bind {source} to {target}")


def keep_mounts_private() -> None:
    """Stop mounts in this namespace from propagating to any other."""
    _check(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "make mounts private")


def only_receive_mounts() -> None:
    """Make all mounts here slaves: none made here propagates to another namespace.

    Mounts made outside still arrive, where the machine shares its mounts, as systemd does.
    """
    _check(_libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None), "only receive mounts")


def become_root_of_new_user_namespace() -> None:
    """Enter a new user namespace and be root in it.

    If the user is root, all user ids are mapped, so that files of other owners stay accessible; any
    other user is mapped alone. The process must have one thread only.
    """
    uid, gid = os.getuid(), os.getgid()
    whole = uid == 0
    read, write = os.pipe()
    mapper = os.fork()
    if mapper == 0:  # a child outside writes the maps: only it may map more than one id
        os.close(write)
        os.read(read, 1)
        _write_maps(os.getppid(), uid, gid, whole)
        os._exit(0)
    os.close(read)
    try:
        unshare(NEWUSER)
    finally:
        os.close(write)
        _, status = os.waitpid(mapper, 0)
    if status != 0:
        raise OSError(0, "mapping user ids into the new user namespace failed")


def _write_maps(pid: int, uid: int, gid: int, whole: bool) -> None:
    try:
        count = 2**32 - 1 if whole else 1
        if not whole:
            Path(f"/proc/{pid}/setgroups").write_text("deny")
        Path(f"/proc/{pid}/gid_map").write_text(f"0 {0 if whole else gid} {count}")
        Path(f"/proc/{pid}/uid_map").write_text(f"0 {0 if whole else uid} {count}")
    except OSError as error:
        print(f"cannot write the id maps of a user namespace: {error}", file=sys.stderr)
        os._exit(1)


def passing_on(pid: int) -> Callable[[int, object], None]:
    """Return a signal handler that forwards each signal to a process, if it still exists."""

    def pass_on(number: int, _: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    return pass_on


def run_as_init(body: Callable[[], int], announce: Callable[[int], None] | None = None) -> int:
    """Run `body` as the first process of a new PID namespace; return its exit status.

    `announce` is called with the id of that process as this process sees it. INT, TERM, HUP and
    QUIT are forwarded to it, including signals blocked until now; if these were blocked, `body`
    begins with them blocked, as a first process loses signals that it does not handle yet. It dies
    with this process, and so does everything in its namespace, even when this process is killed.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        die_with_parent()
        _exit_if_orphaned(read)
        mount("proc", "/proc", "proc")
        os._exit(body())
    os.close(read)
    if announce:
        announce(child)
    for number in FORWARDED:
        signal.signal(number, passing_on(child))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    _, status = os.waitpid(child, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # too late: all that is left is its exit code
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _exit_if_orphaned(read: int) -> None:
    """End when the parent died before it could be followed: its end of the pipe is then closed."""
    os.set_blocking(read, False)
    try:
        if os.read(read, 1) == b"":
            os._exit(1)
    except BlockingIOError:
        pass
