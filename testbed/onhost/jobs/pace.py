"""Computation of a stated duration: a rank computes real values, and waits for the rest of it.

Jobs whose ranks share processors then compute as fast as they say, and only the fabric couples
them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Optional

from ..communication.control import Control

_SLEPT = 1e-3
"""Seconds of a wait that are slept: what can be interrupted ends on whole milliseconds."""


class Pace:
    """The computation between two collectives of one generation; it begins when this is made."""

    def __init__(self, seconds: Optional[float], control: Control, generation: int) -> None:
        self._seconds, self._control, self._generation = seconds, control, generation
        self.restart()

    def restart(self) -> None:
        """Let the next computation begin now, as after a collective."""
        self._begin = time.monotonic()

    def leave_out(self, seconds: float) -> None:
        """Count some seconds of the computation as none of it."""
        self._begin += seconds

    def wait(self) -> dict[str, float]:
        """Wait until the computation has taken its seconds; return what a step reports of that.

        `paced` are the seconds waited, and `overrun` those by which the computation took longer, in
        which case nothing is waited. Without a pace nothing is waited or reported. Raise Left.
        """
        if self._seconds is None:
            return {}
        computed, end = time.monotonic(), self._begin + self._seconds
        if computed >= end:
            return {"paced": 0.0, "overrun": computed - end}
        almost = end - _SLEPT
        self._control.wait_until(lambda: time.monotonic() >= almost, self._generation, almost)
        time.sleep(max(0.0, end - time.monotonic()))
        return {"paced": time.monotonic() - computed, "overrun": 0.0}


class Paces:
    """The parts of an iteration that a rank computes, each of a duration of its own.

    Parts that have none take as long as they do.
    """

    def __init__(
        self, seconds: Optional[Mapping[str, Optional[float]]], control: Control, generation: int
    ) -> None:
        self._seconds, self._control, self._generation = seconds, control, generation
        self._sums: dict[str, float] = {}
        self._present: Optional[Pace] = None

    @contextmanager
    def computing(self, what: str) -> Iterator[None]:
        """Wait at the end until a part has taken its seconds. Raise Left."""
        pace = Pace((self._seconds or {}).get(what), self._control, self._generation)
        self._present = pace
        yield
        self._present = None
        for name, seconds in pace.wait().items():
            self._sums[name] = self._sums.get(name, 0.0) + seconds

    @contextmanager
    def not_computing(self) -> Iterator[None]:
        """Leave out of the present part what is done meanwhile, as an exchange between ranks."""
        begin = time.monotonic()
        yield
        if self._present is not None:
            self._present.leave_out(time.monotonic() - begin)

    def report(self) -> dict[str, float]:
        """Return the sums of what `Pace.wait` reported since the last call; {} without a pace."""
        if self._seconds is None:
            return {}
        found, self._sums = self._sums, {}
        return found
