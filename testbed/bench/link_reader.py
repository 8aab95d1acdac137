"""One thread that reads the lines of all agents.

A thread for each would be as simple, but those of a thousand hosts wait for Python's lock together,
and each that waits makes the holder let go of it after the switch interval: they then spend the
processor on waking each other.
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

AtEnd = Callable[[], None]
Read = Callable[[], AtEnd | None]
"""Takes what has come, without waiting; returns None, or after the end what is to be done then."""


class LinkReader:
    """Calls back for each of its files that can be read; its thread lives while it has any."""

    def __init__(self) -> None:
        self._selector: selectors.BaseSelector | None = None
        self._changing = Lock()

    def add(self, file: int, read: Read) -> None:
        """Have `read` called whenever the file can be read, until it returns what to do at the end.

        That is then called in a thread of its own, and may take time; `read` must not.
        """
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
                if (at_end := key.data()) is not None:
                    self._remove(key.fd, selector)
                    Thread(target=at_end, name="end of an agent", daemon=True).start()
            if len(ready) > 1:
                time.sleep(_PAUSE)

    def _remove(self, file: int, selector: selectors.BaseSelector) -> None:
        """Read a file no more, and after the last one nothing."""
        with self._changing:
            selector.unregister(file)
            if not selector.get_map():
                selector.close()
                self._selector = None
