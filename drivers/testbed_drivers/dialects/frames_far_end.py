"""The fixed-frame dialect, device side: frames in, one frame back or none."""

from __future__ import annotations

from abc import abstractmethod

from testbed_drivers.dialects.client_connection import ClientConnection
from testbed_drivers.dialects.far_end import FarEnd

_PAUSE = 0.02
"""Seconds of silence after which a frame that was begun is forgotten."""


class FramesFarEnd(FarEnd):
    """An instrument that answers frames of `length` bytes; its clients share its state.

    Faults find a frame by its bytes in hexadecimal: `01 12`.
    """

    length: int

    def _conversation(self, connection: ClientConnection) -> FramesSession:
        return FramesSession(self, connection)

    @abstractmethod
    def _carry_out(self, frame: bytes) -> bytes:
        """Carry out one frame, under `lock`; return its answer, nothing for none."""

    def execute(self, frame: bytes) -> bytes:
        """Execute one frame; return its answer, or nothing."""
        with self.lock:
            return self._carry_out(frame)


class FramesSession:
    """One client's connection: splits bytes into frames, and sends answers."""

    def __init__(self, far_end: FramesFarEnd, connection: ClientConnection) -> None:
        self._far_end = far_end
        self._connection = connection
        self._begun = b""
        self._heard_at = 0.0

    def receive(self, data: bytes) -> None:
        """Receive bytes in any pieces; a pause within a frame discards the incomplete frame."""
        now = self._far_end.scheduler.now()
        begun = self._begun if now - self._heard_at < _PAUSE else b""
        self._heard_at = now
        stream, length = begun + data, self._far_end.length
        while len(stream) >= length:
            frame, stream = stream[:length], stream[length:]
            if answer := self._far_end.execute(frame):
                self._connection.reply(answer, frame.hex(" "))
        self._begun = stream
