"""A clock for far ends that only moves when told to."""

import heapq
from itertools import count


class VirtualTime:
    """A scheduler whose clock stands still until `advance`."""

    def __init__(self):
        self.time = 0.0
        self._due = []
        self._number = count()

    def now(self):
        return self.time

    def call_at(self, when, action):
        heapq.heappush(self._due, (when, next(self._number), action))

    def advance(self, seconds):
        until = self.time + seconds
        while self._due and self._due[0][0] <= until:
            self.time, _, action = heapq.heappop(self._due)
            action()
        self.time = until
