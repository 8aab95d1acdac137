"""A clock that stands still until it is moved, for far ends, and deadlines on it for drivers."""

import heapq
from dataclasses import dataclass
from itertools import count

from testbed.clock import Deadline


class VirtualTime:
    """A scheduler whose time passes only in `advance` and `next`."""

    def __init__(self):
        self.time = 0.0
        self._due = []
        self._number = count()

    def now(self):
        """Return seconds on this clock."""
        return self.time

    def call_at(self, when, action):
        """Run `action` at `when`, or at once when that is past and time next moves."""
        heapq.heappush(self._due, (when, next(self._number), action))

    def advance(self, seconds):
        """Let time pass, and what is due happen."""
        until = self.time + seconds
        while self._due and self._due[0][0] <= until:
            when, _, action = heapq.heappop(self._due)
            self.time = max(self.time, when)
            action()
        self.time = until

    def step(self, until):
        """Move to the next thing that is due before `until`; False when there is none."""
        if not self._due or self._due[0][0] > until:
            self.time = max(self.time, until)
            return False
        when, _, action = heapq.heappop(self._due)
        self.time = max(self.time, when)
        action()
        return True


@dataclass(frozen=True, slots=True)
class VirtualDeadline(Deadline):
    """A moment on such a clock; every deadline made of it is on the same one."""

    clock: VirtualTime

    def within(self, seconds):
        """Return the earlier of this deadline and `seconds` from now."""
        return VirtualDeadline(min(self.at, self.clock.now() + seconds), self.clock)

    def later(self, seconds):
        """Return a deadline `seconds` after this one."""
        return VirtualDeadline(self.at + seconds, self.clock)

    @property
    def left(self):
        """Return the seconds that are left, never negative."""
        return max(0.0, self.at - self.clock.now())

    @property
    def passed(self):
        """Tell whether the deadline is over."""
        return self.clock.now() >= self.at
