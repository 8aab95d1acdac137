"""Pauses of this process: stopped, starved of its machine, or asleep with it.

During a pause nothing that happens in the lab is seen or answered, and hosts give up a controller
that sends nothing. A trial around such a pause would measure the pause.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Event, Lock, Thread

from testbed.clock import boot_time
from testbed.errors import TestbedError
from testbed.record.log import EventLog

LEAST = 1.0
"""Seconds from which on a pause is one."""

_LOOK = 0.1


class PauseDetector:
    """A watch over this process, from now until `end`; its thread does nothing but look."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._lock = Lock()
        self._seen = boot_time()
        self._longest = 0.0
        self._over = Event()
        self._thread = Thread(target=self._watch, name="pauses", daemon=True)
        self._thread.start()

    def longest(self) -> float:
        """Return the seconds of the longest pause since this was last asked; 0 when none was."""
        self._look()
        with self._lock:
            longest, self._longest = self._longest, 0.0
        return longest

    def end(self) -> None:
        """Watch no longer; nothing is noted after this. Safe to call twice."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK):
            self._look()

    def _look(self) -> None:
        """Note how long ago the last look was, if that is long."""
        with self._lock:
            at = boot_time()
            pause, self._seen = at - self._seen, at
            if pause < LEAST:
                return
            self._longest = max(self._longest, pause)
        text = f"stood still for {pause:.1f} s: stopped, starved of the machine, or asleep with it"
        with suppress(TestbedError):  # a full disk is reported by what must keep a record
            self._log.append("note", "this process", text=text)
