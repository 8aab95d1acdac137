"""The state of a job in two versions, each with the number of its next step.

A step reads the current version and writes the other; to commit is to swap them. So an interrupted
step leaves the current version untouched, and a rank that committed one step more than the others
takes that step back by swapping again.
"""

from __future__ import annotations

import hashlib
from typing import Callable

import numpy as np
import numpy.typing as npt

from ..errors import Refused

Numbers = npt.NDArray[np.float32]

_HEADER_BYTES = 64  # the step, and padding that keeps the numbers aligned to cache lines


class _Version:
    """One version: its bytes, and its step while the bytes are known to be whole."""

    def __init__(self, size: int) -> None:
        self.step: int | None = None
        self.data = np.empty(_HEADER_BYTES + 4 * size, np.uint8)
        self.data.fill(0)  # unlike np.zeros, which leaves the page faults to the first steps
        self.header = self.data[:8].view("<i8")
        self.numbers: Numbers = self.data[_HEADER_BYTES:].view(np.float32)

    def declare(self, step: int) -> None:
        self.step = step
        self.header[0] = step


class State:
    """Two versions of `size` numbers; the first starts as all zeros before step 0."""

    def __init__(self, size: int) -> None:
        self._current, self._other = _Version(size), _Version(size)
        self._current.declare(0)
        self.on_commit: Callable[[], None] = lambda: None
        """Called after every commit."""
        self.part: int | None = None
        """Which part of a model it is, where ranks hold different ones."""

    @property
    def step(self) -> int | None:
        """Return the number of the next step, which equals the committed steps; None if invalid."""
        return self._current.step

    @property
    def numbers(self) -> Numbers:
        """Return the current version, from which the next step starts."""
        return self._current.numbers

    @property
    def draft(self) -> Numbers:
        """Return the other version, which the step in progress writes."""
        self._other.step = None
        return self._other.numbers

    def commit(self) -> None:
        """Make the draft the current version and the step after this one the next."""
        assert self.step is not None
        self._other.declare(self.step + 1)
        self._current, self._other = self._other, self._current
        self.on_commit()

    def rewind(self, step: int) -> None:
        """Make `step` the next step, going back by at most one; raise Refused otherwise."""
        if self.step == step:
            return
        if self.step != step + 1 or self._other.step != step:
            raise Refused(
                f"cannot go back to step {step}: the next step is {self.step}, and the state "
                f"before step {step} is not stored"
            )
        self._current, self._other = self._other, self._current

    def outgoing(self) -> memoryview:
        """Return the current version as bytes to send."""
        return self._current.data.data

    def incoming(self) -> memoryview:
        """Return the buffer for a version to receive; no version is valid until `adopt`."""
        self._current.step = self._other.step = None
        return self._current.data.data

    def adopt(self, step: int) -> None:
        """Accept the received version; raise Refused when it is not the state before `step`."""
        received = int(self._current.header[0])
        if received != step:
            raise Refused(f"received the state before step {received}, expected that before {step}")
        self._current.step = step

    def sha256(self) -> str:
        """Return the SHA-256 of the current version and its step number."""
        return hashlib.sha256(self._current.data.data).hexdigest()
