"""The one-line text dialect, device side: lines in, one line back or none."""

from __future__ import annotations

from abc import abstractmethod

from testbed_drivers.dialects.client_connection import ClientConnection, LineSession
from testbed_drivers.dialects.far_end import FarEnd


class TextFarEnd(FarEnd):
    """An instrument that answers lines of text; its clients share its state.

    Each answer is sent after `before`.
    """

    before = b""
    end = b"\r\n"

    def _conversation(self, connection: ClientConnection) -> LineSession:
        return LineSession(connection, self.execute)

    @abstractmethod
    def _carry_out(self, line: str) -> str:
        """Carry out one line, under `lock`; return its answer, an empty string for none."""

    def execute(self, line: str) -> bytes:
        """Execute one line; return its answer as bytes to send, or nothing."""
        with self.lock:
            text = self._carry_out(line)
        return self.before + text.encode("ascii") + self.end if text else b""
