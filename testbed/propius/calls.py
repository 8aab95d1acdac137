"""What carries a message to a service, as `Caller` does over gRPC."""

from __future__ import annotations

import time
from typing import Any, Protocol

from testbed.clock import Deadline
from testbed.errors import LabError

_ASK_AGAIN_S = 0.1


class Calls(Protocol):
    """Calls of the methods of one service."""

    def __call__(self, method: str, request: Any) -> Any:
        """Return the answer to a request; raise LabError if there is none."""


class Repeated:
    """Calls that are made again until there is an answer, for messages that may be repeated."""

    def __init__(self, calls: Calls, seconds: float) -> None:
        self._calls = calls
        self._seconds = seconds

    def __call__(self, method: str, request: Any) -> Any:
        """Return the answer; raise LabError if there is none within `seconds`."""
        deadline = Deadline.after(self._seconds)
        while True:
            try:
                return self._calls(method, request)
            except LabError:
                if deadline.passed:
                    raise
            time.sleep(_ASK_AGAIN_S)
