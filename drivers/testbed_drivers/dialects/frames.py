"""The fixed-frame dialect, host side: frames of a fixed length out, one frame back."""

from __future__ import annotations

from collections.abc import Callable

from testbed.bench.contracts import Identity, Transport
from testbed.clock import Deadline
from testbed_drivers.dialects.message_dialect import MessageDialect
from testbed_drivers.transports.base import Endpoint, exactly


class Frames(MessageDialect[bytes]):
    """Exchanges frames of `length` bytes each."""

    def __init__(
        self,
        endpoint: Endpoint,
        identity_query: tuple[bytes, Callable[[bytes], Identity]],
        *,
        length: int,
    ) -> None:
        super().__init__(endpoint, identity_query)
        self._cut = exactly(length)

    def _encode(self, message: bytes) -> bytes:
        return message

    def _receive(self, line: Transport, deadline: Deadline) -> bytes:
        return self._receive_bytes(line, self._cut, deadline)

    def _words(self, message: bytes) -> str:
        return message.hex(" ")
