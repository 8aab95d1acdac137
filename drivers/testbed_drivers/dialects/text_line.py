"""The one-line text dialect, host side: lines out, one line back."""

from __future__ import annotations

from collections.abc import Callable

from testbed.bench.contracts import Identity, Transport
from testbed.clock import Deadline
from testbed_drivers.dialects.message_dialect import MessageDialect
from testbed_drivers.transports.base import Endpoint


class TextLine(MessageDialect[str]):
    """Exchanges lines of text; `ends` are the line terminators for writing and for reading."""

    def __init__(
        self,
        endpoint: Endpoint,
        identity_query: tuple[str, Callable[[str], Identity]],
        *,
        ends: tuple[bytes, bytes],
    ) -> None:
        super().__init__(endpoint, identity_query)
        self._write_end, self._read_end = ends

    def _encode(self, message: str) -> bytes:
        return message.encode("ascii") + self._write_end

    def _receive(self, line: Transport, deadline: Deadline) -> str:
        """Return the next line that is not empty; ValueError when it is no ASCII."""
        while True:
            if text := self._receive_bytes(line, self._read_end, deadline).decode("ascii").strip():
                return text

    def _words(self, message: str) -> str:
        return repr(message)
