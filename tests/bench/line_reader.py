"""One thread that reads the lines of all agents of a benchmark.

A thread for each would be as simple, but those of a thousand hosts wait for Python's lock together,
and each that waits makes the holder let go of it after the switch interval: they then spend the
processor on waking each other. Over SSH there is one for each, whose decryption takes more.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from threading import Lock, Thread

_PAUSE = 0.0005
"""Seconds without reading after several lines had something at once.

Each call to the system gives Python's lock away. What reads one report at a time and what handles
it would spend more on taking it from one another than on the reports; some together cost less, and
meanwhile their handling is not disturbed.
"""

Read = Callable[[], bool]
"""Takes what has come, without waiting; returns whether more may come."""


class LineReader:
    """Calls back for each of its files that can be read; its thread lives while it has any."""

    def __init__(self) -> None:
        self._selector: selectors.BaseSelector | None = None
        self._changing = Lock()

    def add(self, file: int, read: Read) -> None:
        """Have `read` called whenever the file can be read, until no more may come."""
        with self._changing:
            if self._selector is not None:
                self._selector.register(file, selectors.EVENT_READ, read)
                return
            self._selector = selectors.DefaultSelector()
            self._selector.register(file, selectors.EVENT_READ, read)
            Thread(target=self._read, args=[self._selector], name="agents", daemon=True).start()

    def _read(self, selector: selectors.BaseSelector) -> None:
        while selector is self._selector:
            ready = selector.select()
            for key, _ in ready:
                if not key.data():
                    self._remove(key.fd, selector)
            if len(ready) > 1:
                time.sleep(_PAUSE)

    def _remove(self, file: int, selector: selectors.BaseSelector) -> None:
        """Read a file no more, and after the last one nothing."""
        with self._changing:
            selector.unregister(file)
            if not selector.get_map():
                selector.close()
                self._selector = None
