"""The live view of a run: a redrawn picture on a terminal, plain lines elsewhere.

Nothing is drawn or written in the thread that appends to the log: there an event is only queued,
because any delay of that thread would add to the recovery times that it measures.
"""

from __future__ import annotations

import math
import os
from collections import deque
from threading import Event as Flag
from threading import Thread
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from testbed.clock import now
from testbed.events import Event
from testbed.report.console import CleanConsole
from testbed.report.non_blocking_writer import PATIENCE, NonBlockingWriter
from testbed.report.progress import Line, Progress
from testbed.report.screen import STYLES, picture
from testbed.run.planning.plan import Plan

_PER_SECOND = 4
"""Pictures; one takes about 1.2 ms to draw, in which the interpreter does nothing else."""

_LINES = 5
"""The latest lines that the picture shows."""

_QUIET = 10.0
"""Seconds without a line after which the plain view shows the latest step."""

_MOST_EVENTS = 10_000
"""Events that wait to be shown; on a terminal that was stopped, further steps are not kept."""


class LiveView:
    """A subscriber to the event log that shows what the run is doing, as a context manager."""

    def __init__(self, stream: TextIO, plan: Plan) -> None:
        self._queue: deque[tuple[float, Event]] = deque()
        self._progress = Progress(plan)
        self._lines: deque[Line] = deque(maxlen=_LINES)
        self._started = math.inf
        console = CleanConsole(stream)
        self._display: _Screen | _PlainLines = (
            _Screen(self, console) if _wants_picture(console) else _PlainLines(self, stream)
        )

    def __call__(self, event: Event) -> None:
        """Queue an event for the thread that shows it."""
        if len(self._queue) < _MOST_EVENTS or event.kind != "step":
            self._queue.append((now(), event))

    def __enter__(self) -> LiveView:
        self._display.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._display.stop()

    @property
    def elapsed(self) -> float:
        """Return the present time in seconds of the log; 0 before its first event."""
        return max(0.0, now() - self._started)

    def catch_up(self) -> list[Line]:
        """Process the queued events and return their lines of progress."""
        lines: list[Line] = []
        while self._queue:
            at, event = self._queue.popleft()
            self._started = min(self._started, at - event.t)
            lines += self._progress.note(event)
        lines.sort(key=lambda line: line.t)
        self._lines.extend(line for line in lines if not line.stays)
        return lines

    def picture(self, width: int) -> Group:
        """Return the run as it is now, as a picture for a terminal.

        It ends with an empty line, where the terminal can echo typed characters such as ^C without
        shifting the picture.
        """
        return Group(picture(self._progress, self._lines, self.elapsed, width), Text())

    def how_far(self) -> str:
        """Return the progress of the job as text; empty when no step is finished yet."""
        step, trial = self._progress.step, f"trial {self._progress.number}"
        if len(steps := self._progress.steps) > 1:
            each = " and ".join(f"step {done} of {job}" for job, done in steps.items())
            return f"{trial}, {each} are finished"
        return "" if step is None else f"{trial}, step {step} is finished"


class _Screen(Live):
    """A picture that rich's own thread redraws, and that is removed when the view ends.

    Answers to signals are written above it and stay.
    """

    def __init__(self, view: LiveView, console: Console) -> None:
        self._view = view
        super().__init__(
            get_renderable=lambda: view.picture(console.width),
            console=console,
            refresh_per_second=_PER_SECOND,
            transient=True,
        )

    def refresh(self) -> None:
        """Write new lines, and redraw the picture."""
        with self._lock:
            for line in self._view.catch_up():
                if line.stays:
                    self.console.print(Text(line.text, STYLES[line.tone]))
            super().refresh()


class _PlainLines(Thread):
    """Lines of progress, written by a thread of its own."""

    def __init__(self, view: LiveView, stream: TextIO) -> None:
        super().__init__(name="live-view", daemon=True)
        self._view = view
        self._writer = NonBlockingWriter(stream)
        self._over = Flag()
        self._last = 0.0

    def run(self) -> None:
        """Write lines of progress until the view ends."""
        while not self._over.wait(1 / _PER_SECOND):
            self._write()
        self._write()
        self._writer.flush(PATIENCE)

    def stop(self) -> None:
        """Write the remaining lines and end the thread."""
        self._over.set()
        self.join()

    def _write(self) -> None:
        for line in self._view.catch_up():
            self._say(line.t, line.text)
        elapsed = self._view.elapsed
        if elapsed - self._last > _QUIET and (words := self._view.how_far()):
            self._say(elapsed, words)
        self._writer.flush()

    def _say(self, t: float, text: str) -> None:
        self._writer.write(f"{t:8.1f} s  {text}\n")
        self._last = t


def _wants_picture(console: Console) -> bool:
    """Return whether the output is a terminal that can draw, outside CI."""
    return console.is_terminal and not console.is_dumb_terminal and not os.environ.get("CI")
