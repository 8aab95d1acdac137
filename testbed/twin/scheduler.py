"""Clocks for far ends and light: run actions at given times, one after the other."""

from __future__ import annotations

import heapq
import sys
import threading
from collections.abc import Callable
from itertools import count

from testbed import clock


class WallScheduler:
    """Runs actions on the monotonic clock, in one thread, in the order of their times."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)
        self._thread.start()

    def now(self) -> float:
        """Return monotonic seconds."""
        return clock.now()

    def call_at(self, when: float, action: Callable[[], None]) -> None:
        """Run `action` at `when`, at once if that has passed; equal times keep their order."""
        with self._changed:
            heapq.heappush(self._due, (when, next(self._number), action))
            self._changed.notify()

    def close(self) -> None:
        """Discard actions that are not due and end the thread; safe to call twice."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while (action := self._next()) is not None:
            try:
                action()
            except Exception:
                # one action that fails must not stop all light; it is reported as any other
                # thread's uncaught error
                threading.excepthook(threading.ExceptHookArgs([*sys.exc_info(), self._thread]))

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next action; None once closed."""
        with self._changed:
            while not self._closed:
                wait = self._due[0][0] - self.now() if self._due else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(wait)
        return None


class SteppedScheduler:
    """A clock that advances only when it is moved, to replay recorded times."""

    def __init__(self) -> None:
        self._now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()

    def now(self) -> float:
        """Return seconds on this clock."""
        return self._now

    def call_at(self, when: float, action: Callable[[], None]) -> None:
        """Run `action` once the clock is moved to `when`."""
        heapq.heappush(self._due, (when, next(self._number), action))

    def move_to(self, when: float) -> None:
        """Advance the clock to `when`, and run the actions that are due by then, in order."""
        while self._due and self._due[0][0] <= when:
            due, _, action = heapq.heappop(self._due)
            self._now = max(self._now, due)
            action()
        self._now = max(self._now, when)
