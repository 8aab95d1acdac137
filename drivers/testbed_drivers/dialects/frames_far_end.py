"""The fixed-frame dialect, device side: frames in, one frame back or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from testbed.bench.sites import Scheduler
from testbed_drivers.dialects.client_connection import ClientConnection
from testbed_drivers.dialects.far_end import FarEnd

_PAUSE = 0.02
"""Seconds of silence after which a frame that was begun is forgotten."""


class FramesFarEnd(FarEnd):
    """An instrument that answers frames of `length` bytes; its clients share its state.

    `answer` carries out one frame and returns its answer, nothing for none; it runs under `lock`.
    Faults find a frame by its bytes in hexadecimal: `01 12`.
    """

    def __init__(
        self,
        answer: Callable[[bytes], bytes],
        faults: Mapping[str, str],
        scheduler: Scheduler,
        seed: int,
        *,
        length: int,
    ) -> None:
        super().__init__(faults, scheduler, seed)
        self._answer = answer
        self._length = length

    def _conversation(self, connection: ClientConnection) -> FramesSession:
        return FramesSession(self, connection, self._length)

    def execute(self, frame: bytes) -> bytes:
        """Carry out one frame; return its answer, or nothing."""
        with self.lock:
            return self._answer(frame)


class FramesSession:
    """One client's line: bytes to frames, and answers back."""

    def __init__(self, far_end: FramesFarEnd, connection: ClientConnection, length: int) -> None:
        self._far_end = far_end
        self._connection = connection
        self._length = length
        self._begun = b""
        self._heard_at = 0.0

    def receive(self, data: bytes) -> None:
        """Take bytes in any pieces; a pause within a frame is the end of what was begun."""
        now = self._far_end.scheduler.now()
        begun = self._begun if now - self._heard_at < _PAUSE else b""
        self._heard_at = now
        stream = begun + data
        while len(stream) >= self._length:
            frame, stream = stream[: self._length], stream[self._length :]
            if answer := self._far_end.execute(frame):
                self._connection.reply(answer, frame.hex(" "))
        self._begun = stream
