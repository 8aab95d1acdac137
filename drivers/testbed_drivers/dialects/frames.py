"""The fixed-frame dialect, host side: frames of so many bytes out, one frame back."""

from __future__ import annotations

from collections.abc import Callable

from testbed.bench.contracts import Identity, Tracer, Transport
from testbed.clock import Deadline
from testbed_drivers.dialects.message_dialect import MessageDialect
from testbed_drivers.transports.base import exactly
from testbed_drivers.transports.options import DEFAULT, Timeouts


class Frames(MessageDialect[bytes]):
    """Speak frames of `length` bytes each."""

    def __init__(
        self,
        instrument: str,
        dial: Callable[[Deadline], Transport],
        tracer: Tracer,
        *,
        length: int,
        identity_query: tuple[bytes, Callable[[bytes], Identity]],
        serial: bool,
        timeouts: Timeouts = DEFAULT,
    ) -> None:
        super().__init__(
            instrument,
            dial,
            tracer,
            identity_query=identity_query,
            serial=serial,
            timeouts=timeouts,
        )
        self._cut = exactly(length)

    def _encode(self, message: bytes) -> bytes:
        return message

    def _receive(self, line: Transport, deadline: Deadline) -> bytes:
        return self._receive_traced(line, self._cut, deadline)

    def _words(self, message: bytes) -> str:
        return message.hex(" ")
