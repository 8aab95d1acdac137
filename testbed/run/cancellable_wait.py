"""A wait that a signal may end, in whatever thread it is: nothing was touched before it is over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from testbed.errors import LabError


class CancellableWait:
    """What one thread waits for before it changes anything, and another may give up."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_on = False
        self._is_given_up = False

    @contextmanager
    def on(self) -> Iterator[None]:
        """Wait inside; raise LabError at the end when that was given up meanwhile."""
        with self._lock:
            self._is_on, self._is_given_up = True, False
        try:
            yield
        finally:
            with self._lock:
                self._is_on = False
        if self._is_given_up:
            raise LabError("nobody waits for that any more")

    def give_up(self) -> bool:
        """Have nothing done after the wait under way; tell whether there is one."""
        with self._lock:
            self._is_given_up = self._is_given_up or self._is_on
            return self._is_on
