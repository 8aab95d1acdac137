"""The one-line text dialect, device side: lines in, one line back or none."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from testbed.bench.sites import Scheduler, never
from testbed_drivers.dialects.far_end import FarEnd
from testbed_drivers.dialects.far_end_wire import Wire


class TextFarEnd(FarEnd):
    """An instrument that answers lines; its clients share its state.

    `answer` carries out one line and returns its answer, an empty string for none; it runs under
    `lock`. Each answer stands between `before` and `end`.
    """

    def __init__(
        self,
        answer: Callable[[str], str],
        faults: Mapping[str, str],
        scheduler: Scheduler,
        seed: int,
        *,
        end: bytes,
        before: bytes = b"",
    ) -> None:
        super().__init__(faults, scheduler, seed)
        self._answer = answer
        self._before = before
        self._end = end

    def session(
        self,
        send: Callable[[bytes], None],
        *,
        serial: bool = False,
        hang_up: Callable[[], None] = never,
    ) -> TextSession:
        """Open a conversation whose answers go to `send`."""
        return TextSession(self, self.wire(send, hang_up, self._end))

    def execute(self, line: str) -> bytes:
        """Carry out one line; return its answer as it goes on the wire, or nothing."""
        with self.lock:
            text = self._answer(line)
        return self._before + text.encode("ascii") + self._end if text else b""


class TextSession:
    """One client's line: bytes to lines, and answers back."""

    def __init__(self, far_end: TextFarEnd, wire: Wire) -> None:
        self._far_end = far_end
        self._wire = wire
        self._begun = b""

    def receive(self, data: bytes) -> None:
        """Take bytes in any pieces; a line ends with CR, LF or both."""
        *lines, self._begun = re.split(rb"[\r\n]+", self._begun + data)
        for line in lines:
            command = line.decode("ascii", "replace").strip()
            if answer := self._far_end.execute(command):
                self._wire.reply(answer, command)
