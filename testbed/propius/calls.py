"""What carries a message to a service, as `Caller` does over gRPC."""

from __future__ import annotations

from typing import Any, Protocol


class Calls(Protocol):
    """Calls of the methods of one service."""

    def __call__(self, method: str, request: Any) -> Any:
        """Return the answer to a request; raise LabError if there is none."""
