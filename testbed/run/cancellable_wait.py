"""A wait in one thread that another may cancel: nothing is changed before it is over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from testbed.errors import LabError


class CancellableWait:
    """A wait of one thread, before it changes anything, that another may cancel."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_on = False
        self._is_cancelled = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait inside; raise LabError at the end when that was cancelled meanwhile."""
        with self._lock:
            self._is_on, self._is_cancelled = True, False
        try:
            yield
        finally:
            with self._lock:
                self._is_on = False
        if self._is_cancelled:
            raise LabError("a signal cancelled the wait for it")

    def cancel(self) -> bool:
        """Cancel the wait under way; tell whether there is one."""
        with self._lock:
            self._is_cancelled = self._is_cancelled or self._is_on
            return self._is_on
