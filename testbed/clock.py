"""One honest clock: monotonic seconds on this machine, and deadlines made of them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime

now = time.monotonic
"""Return seconds on the monotonic clock; the only clock durations are taken from."""


def utc() -> str:
    """Return the wall-clock time as ISO 8601 in UTC, to the millisecond; a label only."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock after which nobody waits any more.

    Deadlines are passed down instead of durations, so that a chain of waits shares one budget.
    """

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the deadline `seconds` from now."""
        return cls(now() + seconds)

    def within(self, seconds: float) -> Deadline:
        """Return the earlier of this deadline and `seconds` from now."""
        return Deadline(min(self.at, now() + seconds))

    def later(self, seconds: float) -> Deadline:
        """Return a deadline `seconds` after this one, for whoever waits for one that keeps it."""
        return Deadline(self.at + seconds)

    @property
    def left(self) -> float:
        """Return the seconds that are left, never negative."""
        return max(0.0, self.at - now())

    @property
    def passed(self) -> bool:
        """Tell whether the deadline is over."""
        return now() >= self.at
