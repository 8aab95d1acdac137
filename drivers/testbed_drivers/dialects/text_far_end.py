"""The one-line text dialect, device side: lines in, one line back or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from testbed.bench.sites import Scheduler
from testbed_drivers.dialects.client_connection import ClientConnection, LineSession
from testbed_drivers.dialects.far_end import FarEnd


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

    def _reply_end(self, serial: bool) -> bytes:
        return self._end

    def _conversation(self, connection: ClientConnection) -> LineSession:
        return LineSession(connection, self.execute)

    def execute(self, line: str) -> bytes:
        """Carry out one line; return its answer as it goes on the connection, or nothing."""
        with self.lock:
            text = self._answer(line)
        return self._before + text.encode("ascii") + self._end if text else b""
