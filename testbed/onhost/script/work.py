"""What a script is given of an operation that it has begun."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, Optional

import torch
import torch.distributed as dist


class RailWork(dist.Work):  # type: ignore[misc]
    """An operation that was begun, or waits for its circuits."""

    def __init__(self, result: Any, steps: int = 1) -> None:
        """Take the result that it will have, and in how many steps it ends."""
        super().__init__()
        self._result = result
        self._future: torch.futures.Future[Any] = torch.futures.Future()
        self._lock, self._steps = threading.Lock(), steps
        self.error: Optional[Exception] = None
        """The first error of a step."""

    def end(self, error: Optional[Exception]) -> None:
        """Note that a step is over; with the last one the operation is."""
        with self._lock:
            self._steps -= 1
            self.error = self.error or error
            if self._steps:
                return
        if self.error is None:
            self._future.set_result(self._result)
        else:
            self._future.set_exception(self.error)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until the operation is over, whatever the timeout; raise what it failed with."""
        self._future.wait()
        return True

    def get_future(self) -> torch.futures.Future[Any]:
        """Return the future, which has the tensors when the operation is over."""
        return self._future

    def is_completed(self) -> bool:
        """Tell whether the operation is over."""
        return bool(self._future.done())

    def result(self) -> Any:
        """Return the tensors."""
        return self._result
