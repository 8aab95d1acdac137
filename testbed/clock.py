"""Monotonic time of this machine in seconds, and deadlines in it.

Deadlines nest: the deadline of a command lies within that of its step, and that within the deadline
of the run; each is derived from the outer one with `within`. `bounded` applies a deadline to a call
that takes none, `disconnected_at` to all that waits on a connection.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Thread, Timer
from typing import TypeVar

_T = TypeVar("_T")

now = time.monotonic
"""Return seconds on the monotonic clock; the only clock durations are taken from."""


def boot_time() -> float:
    """Return seconds on a clock that also counts while this machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def utc() -> str:
    """Return the wall-clock time as ISO 8601 in UTC, to the millisecond; a label only."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Deadline:
    """An instant of the monotonic clock at which a wait ends.

    Deadlines are passed down instead of durations, so that a chain of waits shares one budget.
    """

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the deadline `seconds` from now."""
        return cls(now() + seconds)

    def within(self, seconds: float) -> Deadline:
        """Return the earlier of this deadline and `seconds` from now."""
        return Deadline(min(self.at, now() + seconds))

    def later(self, seconds: float) -> Deadline:
        """Return a deadline `seconds` after this one, to wait for an action limited by this one."""
        return Deadline(self.at + seconds)

    @property
    def left(self) -> float:
        """Return the remaining seconds, never negative."""
        return max(0.0, self.at - now())

    @property
    def passed(self) -> bool:
        """Return whether the deadline has passed."""
        return now() >= self.at


@contextmanager
def disconnected_at(deadline: Deadline, line: socket.socket) -> Iterator[None]:
    """Shut a connection down when a deadline passes, so that nothing waits on it any longer."""

    def disconnect() -> None:
        with suppress(OSError):  # the other end did already
            line.shutdown(socket.SHUT_RDWR)

    timer = Timer(deadline.left, disconnect)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def bounded(action: Callable[[], _T], deadline: Deadline, discard: Callable[[_T], object]) -> _T:
    """Call a function that may block for ever, and return its result before the deadline.

    Raise its error, or TimeoutError when the deadline passes first. Then the call continues in a
    daemon thread, and a result that comes too late is passed to `discard`; so is one that comes
    after a signal has ended the wait.
    """
    from concurrent.futures import Future

    call: Future[_T] = Future()

    def make() -> None:
        try:
            call.set_result(action())
        except BaseException as error:
            call.set_exception(error)

    def discard_late(over: Future[_T]) -> None:
        if over.exception() is None:
            discard(over.result())

    thread = Thread(target=make, name="bounded call", daemon=True)
    try:
        thread.start()
        thread.join(deadline.left)
        if not call.done():
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        return call.result()
    except BaseException:  # a signal, too, ends the wait: the result is not taken
        call.add_done_callback(discard_late)
        raise
